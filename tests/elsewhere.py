"""An executor that does work as another process would, in this one."""

import pickle
from concurrent.futures import Future


class Elsewhere:
    """All that a function gets and gives goes through a pickle, whose `sizes` are kept."""

    def __init__(self):
        self.sizes = []

    def submit(self, function, /, *arguments):
        sent = pickle.dumps((function, arguments))
        self.sizes.append(len(sent))
        run, given = pickle.loads(sent)
        future = Future()
        future.set_result(pickle.loads(pickle.dumps(run(*given))))
        return future
