"""MCP sessions that outlive their servers.

`stdio` describes a server that `outlive run` keeps alive, in the form that each SDK and framework wants. `errors.of`
reads what outlive says about a failed call out of whatever exception the SDK or the framework has made of it.
`executable` is the program itself.
"""

from . import errors
from ._executable import executable
from ._policy import Policy
from ._stdio import StdioServer, stdio

__all__ = ["Policy", "StdioServer", "errors", "executable", "stdio"]
