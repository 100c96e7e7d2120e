"""`levelhead serve`: a model, as it is or mitigated, behind the protocol that other clients speak."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from levelhead.cli.app import Loading, loads, refuse_workers
from levelhead.errors import BadOption
from levelhead.options import Settings, option, recipe


@dataclass(frozen=True)
class Serving(Settings):
    """What is changed in the model, who may ask, and how much at once."""

    recipe: str | None = recipe()
    host: str = option(
        "127.0.0.1", "The address to listen to; a public one needs --token-env.", metavar="ADDRESS"
    )
    port: int = option(8000, "Its port; 0: any that is free.", least=0, most=65_535)
    token_env: tuple[str, ...] = option(
        (),
        "An environment variable with a bearer token that requests must have; repeatable.",
        each=True,
        metavar="NAME",
    )
    queue: int = option(64, "Requests that may wait; more get 429.", least=1, most=10_000)
    max_batch: int = option(32, "Texts that are written at once.", least=1, most=1024)

    def check(self) -> None:
        if not self.host:
            raise BadOption("--host must be an address, such as 127.0.0.1 (got nothing)")


@loads
def serve(
    source: Annotated[
        str,
        typer.Argument(
            metavar="MODEL|RUN|FOLDER",
            help="A model, a run that certified a mitigation, or an exported folder.",
        ),
    ],
    serving: Serving,
    *,
    loading: Loading,
) -> None:
    """Serve a model, mitigated or as it is, to OpenAI's clients: completions, chat, likelihoods."""
    refuse_workers(loading, "one process serves one model")
    from levelhead.serving.listening import require_server

    require_server("serve")
    from levelhead.serving.served import ServedModel, check_public, deployed, tokens_in

    check_public(serving.host, bool(serving.token_env))
    tokens = tokens_in(serving.token_env)
    found = deployed(source, serving.recipe, loading)
    served = ServedModel(
        found, serving.host, serving.port, tokens, queue=serving.queue, max_batch=serving.max_batch
    )
    changes = f" ({found.changes})" if found.changes else ""
    print(
        f"{served.address}\nmodel: {found.name}{changes}\nCtrl-C ends it, after what has begun.", flush=True
    )
    served.run()
