"""A receiver of OTLP over HTTP: decodes each request with the official definitions (PyPI
opentelemetry-proto) and prints it as a line of JSON.

    receiver.py PORT ANSWER [COUNT]

ANSWER is the status of the first COUNT requests, such as 503; all others are accepted. Without a
COUNT it is the status of all.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2 as logs
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics
from opentelemetry.proto.collector.profiles.v1development import profiles_service_pb2 as profiles

SIGNALS = {
    "/v1/metrics": (metrics.ExportMetricsServiceRequest, metrics.ExportMetricsServiceResponse),
    "/v1/logs": (logs.ExportLogsServiceRequest, logs.ExportLogsServiceResponse),
    "/v1development/profiles": (
        profiles.ExportProfilesServiceRequest,
        profiles.ExportProfilesServiceResponse,
    ),
}


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    status, failures = 200, None

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        request, response = SIGNALS[self.path]
        decoded = request.FromString(body)
        status = Receiver.status
        if Receiver.failures is not None:
            status = Receiver.status if Receiver.failures > 0 else 200
            Receiver.failures -= 1
        line = {
            "path": self.path,
            "type": self.headers["Content-Type"],
            "status": status,
            "request": MessageToDict(decoded),
        }
        print(json.dumps(line), flush=True)
        answer = response().SerializeToString() if status == 200 else b""
        self.send_response(status)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


Receiver.status = int(sys.argv[2])
if len(sys.argv) > 3:
    Receiver.failures = int(sys.argv[3])
server = HTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver)
print(json.dumps({"path": "ready"}), flush=True)
server.serve_forever()
