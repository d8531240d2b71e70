// An identity provider (oidc-provider) with tokens that anybody can verify, for servers and clients of other programs.
//
//   node identity.mjs [SECONDS]      access tokens last this long
//
// Prints its origin, and goes when its standard input ends. Beside what a provider has:
//
//   GET  /test/person?link=URL       somebody logs in there and agrees: the address that their browser is sent to
//   GET  /test/books                 which grants there were
//   POST /test/restart               another process of the provider, with the same database and one more signing key
import { World } from "./provider.mjs";

const world = await World.start({ format: "jwt", life: Number(process.argv[2] ?? 3600), published: 2 });

// What a browser keeps of one origin: cookies by path and name.
class Cookies {
  kept = new Map();
  take(response) {
    for (const line of response.headers.getSetCookie()) {
      const [pair, ...rest] = line.split("; ");
      const path = rest.find((it) => it.startsWith("path="))?.slice(5) ?? "/";
      this.kept.set(`${path} ${pair.split("=")[0]}`, { path, pair });
    }
  }
  for(url) {
    const { pathname } = new URL(url);
    return [...this.kept.values()].filter((it) => pathname.startsWith(it.path)).map((it) => it.pair).join("; ");
  }
}

// Follows a link as a browser does, fills in the forms, and stops where it leaves the provider.
async function person(link) {
  const cookies = new Cookies();
  let next = { url: link };
  for (let step = 0; step < 20; step += 1) {
    const headers = { cookie: cookies.for(next.url) };
    const response = await fetch(next.url, { method: next.form ? "POST" : "GET", headers, body: next.form, redirect: "manual" });
    cookies.take(response);
    const location = response.headers.get("location");
    if (location) {
      const url = new URL(location, next.url);
      if (url.origin !== world.origin) return url.href;
      next = { url: url.href };
      continue;
    }
    const page = await response.text();
    const action = page.match(/<form[^>]*action="([^"]+)"/)?.[1];
    const prompt = page.match(/name="prompt" value="([^"]+)"/)?.[1];
    if (!action || !prompt) throw new Error(`no form, status ${response.status}: ${page.slice(0, 500)}`);
    const form = new URLSearchParams({ prompt });
    if (prompt === "login") {
      form.set("login", "somebody");
      form.set("password", "a password");
    }
    next = { url: new URL(action, next.url).href, form };
  }
  throw new Error("it leads from one page to the next");
}

const provider = world.server.listeners("request")[0];
world.server.removeAllListeners("request");
world.server.on("request", async (request, response) => {
  const url = new URL(request.url, world.origin);
  const reply = (status, text) => response.writeHead(status, { "content-type": "text/plain" }).end(text);
  try {
    if (url.pathname === "/test/person") reply(200, await person(url.searchParams.get("link")));
    else if (url.pathname === "/test/books") reply(200, JSON.stringify(world.books.grants));
    else if (url.pathname === "/test/restart") reply(200, `${await world.restart() ?? ""}`);
    else provider(request, response);
  } catch (error) {
    reply(500, `${error}`);
  }
});
console.log(world.origin);
process.stdin.resume();
process.stdin.on("end", () => process.exit(0));
