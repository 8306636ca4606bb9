"""The addresses that change something: a form of our own pages is sent there, and nothing else is let in."""

from __future__ import annotations

from secrets import compare_digest
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from starlette.concurrency import run_in_threadpool
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from backstory.errors import BackstoryError
from backstory.web.acting import TOKEN_FIELD, Acting, Order, Reply
from backstory.web.markup import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.requests import Request

    from backstory.web.acting import PromptForm
    from backstory.workspace.located import LocatedSession
    from backstory.workspace.workspace import Workspace

    Act = Callable[[Workspace, LocatedSession | None, Order], Reply]
    Shown = Callable[[PromptForm, bool, int], Response]

FORM_BYTES_MOST = 16_000_000
FORM_TYPE = "application/x-www-form-urlencoded"
PART = "part"
"""The field of a form that a script sent: it wants the field alone, and not a page."""
NOT_OURS = "This form is not one of these pages, or of an earlier start of them. Load the page again."
TOO_LONG = "That is too long for a form."


class Orders:
    """Takes forms. ``shown`` makes a page of the field, or with True the field alone."""

    def __init__(self, acting: Acting, open_workspace: Callable[[], Workspace], shown: Shown) -> None:
        self._acting, self._open_workspace, self._shown = acting, open_workspace, shown

    def routes(self) -> list[Route]:
        """The addresses. Each takes a form, and nothing is to be read there."""
        return [
            Route("/act/run", self._taking(self._acting.send), methods=["POST"]),
            Route("/act/{uid}/prompt", self._taking(self._acting.send), methods=["POST"]),
            Route("/act/{uid}/cancel", self._taking(self._cancel), methods=["POST"]),
        ]

    def _cancel(self, workspace: Workspace, located: LocatedSession | None, _: Order) -> Reply:
        return Reply() if located is None else self._acting.cancel(workspace, located)

    def _taking(self, act: Act) -> Callable[[Request], object]:
        async def taken(request: Request) -> Response:
            body = bytearray()
            async for chunk in request.stream():
                body += chunk
                if len(body) > FORM_BYTES_MOST:
                    return PlainTextResponse(TOO_LONG, 413)
            if request.headers.get("content-type", "").partition(";")[0].strip() != FORM_TYPE:
                return PlainTextResponse(NOT_OURS, 415)
            typed = dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
            if not compare_digest(typed.get(TOKEN_FIELD, "").encode(), self._acting.csrf.encode()):
                return PlainTextResponse(NOT_OURS, 403)
            return await run_in_threadpool(self._answer, act, request.path_params.get("uid"), typed)

        return taken

    def _answer(self, act: Act, uid: str | None, typed: Mapping[str, str]) -> Response:
        order, is_part = Order.read(typed), PART in typed
        with self._open_workspace() as workspace:
            try:
                located = None if uid is None else workspace.resolve(uid)
            except BackstoryError as refused:
                return PlainTextResponse(plain(str(refused)), 404)
            try:
                answer = act(workspace, located, order)
            except (BackstoryError, OSError) as refused:
                answer = Reply(said=plain(str(refused)))
            if answer.is_done and not is_part:
                return RedirectResponse(_where(answer), 303)
            session = None if located is None else workspace.reader.session(located.store, located.session)
            # What was typed is kept until it was taken.
            kept = Order(folder=order.folder, agent=order.agent, model=order.model) if answer.is_done else order
            shown = self._shown(
                self._acting.form(workspace, session, kept, answer), is_part, 200 if answer.is_done else 409
            )
            if answer.is_done and answer.uid != uid:
                shown.headers["Location"] = _where(answer)
            return shown


def _where(answer: Reply) -> str:
    """The page to go on with."""
    return f"/s/{answer.uid}#prompt" if answer.uid else "/sessions"
