"""The transactions of ``ATOMIC_REQUESTS``, opened by the views of the API.

Django opens them before it calls a view, so that a database that is down is an HTML page.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from django.db import Error, connections, transaction
from rest_framework.views import APIView


class AtomicAPI(APIView):
    """A view that is one transaction in each database with ``ATOMIC_REQUESTS``."""

    _transactions: ExitStack | None = None

    @classmethod
    def as_view(cls, *args: Any, **initkwargs: Any) -> Any:
        """Return the view, for which Django opens no transaction."""
        view: Any = super().as_view(*args, **initkwargs)
        view._non_atomic_requests = set(connections)
        return view

    def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        """Call the handler, and commit or roll back before the response is sent."""
        try:
            with ExitStack() as self._transactions:
                return super().dispatch(request, *args, **kwargs)
        except Error as error:
            # Of a commit: those of the handler have been handled, or are bugs and raised again.
            response = self.handle_exception(error)
            return self.finalize_response(self.request, response, *args, **kwargs)

    def initial(self, request: Any, *args: Any, **kwargs: Any) -> None:
        """Begin the transactions, where errors are handled, then run REST framework's checks."""
        if self._transactions is not None:
            # With the decorator ``non_atomic_requests``, a subclass exempts its ``dispatch``.
            exempt = getattr(self.dispatch, "_non_atomic_requests", ())
            for alias, values in connections.settings.items():
                if values["ATOMIC_REQUESTS"] and alias not in exempt:
                    self._transactions.enter_context(transaction.atomic(using=alias))
        super().initial(request, *args, **kwargs)
