"""OpenAI Agents: the function tools that an agent makes of a server's, as the runner invokes them for the model.

usage: openai_agents.py COMMAND ARG…
"""

import asyncio
import json
import sys

from agents import Agent, RunContextWrapper
from agents.mcp import MCPServerStdio, MCPUtil
from agents.tool_context import ToolContext
from lines import Told, bound, drive


async def main(command: str, *args: str) -> None:
    settings = {"command": command, "args": list(args)}
    async with MCPServerStdio(params=settings, **bound("client_session_timeout_seconds")) as server:
        handles = {}

        async def call(name, arguments):
            said = json.dumps(arguments)
            context = ToolContext(None, tool_name=name, tool_call_id="1", tool_arguments=said)
            output = await handles[name].on_invoke_tool(context, said)
            if isinstance(output, str):  # a failure; results are objects
                raise Told(output)
            return json.dumps(output)

        async def tools():
            made = await MCPUtil.get_function_tools(server, False, RunContextWrapper(None), Agent(name="agent"))
            handles.update({function.name: function for function in made})
            return list(handles)

        await drive(call, tools)


asyncio.run(main(*sys.argv[1:]))
