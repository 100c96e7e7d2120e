"""Numbers from arrays. Nothing here knows a model: numpy in, Measurement out."""
