"""Turning the knob of one predictor: which operating point serves it, now or as soon as it is built.

Knows positions, points and how long a query takes; knows nothing of texts and words. `points` builds and keeps the
points, `model.knob` chooses them.
"""

from __future__ import annotations

import threading
import warnings

from rheostat.errors import NotCopyable, OperatingPointError, RheostatError, RheostatWarning
from rheostat.model.knob import unmeasured_below, unmeasured_warning
from rheostat.runtime.arguments import check_position
from rheostat.runtime.engine import Engine
from rheostat.runtime.points import Points, Serving

KNOB_STEP = 0.05  # between the positions tried to find a latency
BUILT_STEPS = 4  # steps between them where a position has to be built


class Turner(NotCopyable):
    """The knob of one predictor. Safe to use from several threads; of several turns, the last one counts.

    knob: the share of the cost that was requested last.
    """

    def __init__(self, points: Points, knob: float | None, point: str | None, criterion: str | None = None) -> None:
        serving = points.serve(knob, point, criterion)
        assert serving.engine  # made now, so that an unusable file is refused here
        self._points = points
        self._unmeasured_below = unmeasured_below(points.file)
        self._lock = threading.Lock()
        self._requests = 0  # turns requested so far; of several in the background, the last one counts
        self._serving: Serving | None = serving  # None once closed
        self.knob = serving.cost if knob is None else knob
        self._warned = False
        self._warn_about(serving)

    @property
    def is_closed(self) -> bool:
        return self._serving is None

    def close(self) -> bool:
        """Serve no longer. Returns whether it did until now."""
        with self._lock:
            was_open, self._serving = self._serving is not None, None
        return was_open

    def serving(self) -> Serving:
        """The point that is serving, for one query: it stays the same for that query even if the knob is turned."""
        if (serving := self._serving) is None:
            raise RheostatError("this predictor is closed; expected an open one: load the model again")
        self._points.check_file()
        return serving

    def turn(self, knob: float | None, point: str | None, latency_ms: float | None, wait: bool) -> None:
        """Move to another point; the arguments are those of `Predictor.turn`."""
        if type(knob) is float and 0 < knob <= 1 and point is None and latency_ms is None and self._serving is not None:
            serving = self._points.visited(knob, None)
            if serving is not None:
                self._serve(serving, knob, self._new_request())
                return
        self.serving()
        check_position(knob, point, latency_ms)
        if sum(option is not None for option in (knob, point, latency_ms)) != 1:
            raise OperatingPointError(
                "turn got several positions; expected one of: a knob position, point=…, latency_ms=…"
            )
        if latency_ms is not None:
            self._turn_to_latency(latency_ms)
            return
        request = self._new_request()
        if serving := self._points.visited(knob, point):
            self._serve(serving, knob, request)
        elif wait:
            self._serve(self._points.serve(knob, point), knob, request)
        else:
            self._points.choose(knob, point)  # raises here rather than in the background
            threading.Thread(target=self._turn_later, args=(knob, point, request), daemon=True).start()

    def query_ms(self, queries: int) -> float:
        """Median time of a query at the point that is serving, measured now."""
        from rheostat.runtime.latencies import query_ms  # here, since most programs measure nothing

        return query_ms(self.serving().engine, queries)

    def _new_request(self) -> int:
        with self._lock:
            self._requests += 1
            return self._requests

    def _serve(self, serving: Serving, knob: float | None, request: int) -> None:
        with self._lock:
            if request == self._requests and self._serving is not None:  # no later turn, and still open
                self._serving = serving
                self.knob = serving.cost if knob is None else knob
        if serving.cost < self._unmeasured_below:
            self._warn_about(serving)

    def _warn_about(self, serving: Serving) -> None:
        """Say once if the knob is below what the model was trained or measured for."""
        if not self._warned and (warning := unmeasured_warning(self._points.file, serving.point)):
            self._warned = True
            warnings.warn(warning, RheostatWarning, stacklevel=2)

    def _turn_later(self, knob: float | None, point: str | None, request: int) -> None:
        if request != self._requests:
            return
        try:
            self._serve(self._points.serve(knob, point), knob, request)
        except Exception as error:  # out of memory, or the file is gone
            if self._serving is None:
                return
            message = f"the knob could not be turned in the background ({error or type(error).__name__}); it stays"
            warnings.warn(message, RheostatWarning, stacklevel=1)

    def _turn_to_latency(self, latency_ms: float) -> None:
        """Take the largest position of this device's table that is fast enough."""
        from rheostat.runtime.latencies import latency_table

        request, points = self._new_request(), self._points
        table = latency_table(points.settings, self._positions_to_time)
        for knob, found_ms in table:
            if found_ms <= latency_ms:
                self._serve(points.serve(knob, None), knob, request)
                return
        knob, found_ms = table[-1]
        share = points.serve(knob, None).cost
        raise OperatingPointError(
            f"{latency_ms} ms per query was requested; the smallest point tried, "
            f"{share:.0%} of the cost, takes {found_ms:.2f} ms: allow more time or threads"
        )

    def _positions_to_time(self) -> list[tuple[float, Engine]]:
        """The positions of the knob, in steps, that the model has; fewer where each takes memory of its own."""
        points, found = self._points, list[tuple[float, Engine]]()
        for step in range(round(1 / KNOB_STEP), 0, -1):
            if step % BUILT_STEPS and found and found[0][1].held_bytes:
                continue
            knob = round(step * KNOB_STEP, 2)
            try:
                found.append((knob, points.serve(knob, None).engine))
            except OperatingPointError:
                break
        return found
