"""An event operator for tests of queries."""


class Operator:
    """Sends what it is told."""

    def on_event(self, event, send_output):
        if event["type"] == "INPUT":
            send_output("values", event["value"])
