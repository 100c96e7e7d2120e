try { document.documentElement.dataset.theme = localStorage.getItem("levelhead-theme") || ""; } catch { /* a file may not store */ }
document.documentElement.dataset.theme ||= matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
