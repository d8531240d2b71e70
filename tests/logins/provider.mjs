// A real authorization server (oidc-provider), and an MCP server behind it that wants its tokens.
import { randomBytes } from "node:crypto";
import { createServer } from "node:http";
import { exportJWK, generateKeyPair } from "jose";
import { Provider } from "oidc-provider";

const LIFE = 4; // seconds that an access token lasts, unless it is said

// What a provider keeps in its database: it survives its process.
class Database {
  rows = new Map();
  adapter() {
    const { rows } = this;
    return class {
      constructor(kind) { this.kind = kind; }
      key(id) { return `${this.kind} ${id}`; }
      async upsert(id, payload) { rows.set(this.key(id), structuredClone(payload)); }
      async find(id) { return structuredClone(rows.get(this.key(id))); }
      async findByUid(uid) { return this.#with("uid", uid); }
      async findByUserCode(code) { return this.#with("userCode", code); }
      async consume(id) { rows.get(this.key(id)).consumed = Math.floor(Date.now() / 1000); }
      async destroy(id) { rows.delete(this.key(id)); }
      async revokeByGrantId(id) { for (const [key, row] of rows) if (row.grantId === id) rows.delete(key); }
      async #with(name, value) {
        for (const [key, row] of rows) {
          if (key.startsWith(`${this.kind} `) && row[name] === value) return structuredClone(row);
        }
      }
    };
  }
}

export class World {
  database = new Database();
  // So many requests for a token are answered with status 500.
  failing = 0;
  books = { tokens: [], grants: [], secrets: new Set(), calls: 0, refused: 0 };
  // Signing keys, the newest first.
  keys = [];

  // `format` of access tokens ("opaque" or "jwt"), `life` in seconds; how many signing keys are `published`.
  static async start({ format = "opaque", life = LIFE, published = 1 } = {}) {
    const world = new World();
    Object.assign(world, { format, life, published });
    world.server = createServer((request, response) => void world.#answer(request, response));
    world.server.listen(0, "127.0.0.1");
    await new Promise((done) => world.server.once("listening", done));
    world.origin = `http://127.0.0.1:${world.server.address().port}`;
    world.url = `${world.origin}/mcp`;
    await world.restart();
    return world;
  }

  // Another process of the provider, with another signing key and the same database.
  async restart() {
    const { privateKey } = await generateKeyPair("RS256", { extractable: true });
    const key = { ...(await exportJWK(privateKey)), alg: "RS256", use: "sig", kid: randomBytes(8).toString("hex") };
    this.keys = [key, ...this.keys].slice(0, this.published);
    // A token is for the resource that was asked for.
    const resource = (audience) => ({
      scope: "mcp", audience, accessTokenTTL: this.life, accessTokenFormat: this.format, jwt: { sign: { alg: "RS256" } },
    });
    const provider = new Provider(this.origin, {
      adapter: this.database.adapter(),
      jwks: { keys: this.keys },
      cookies: { keys: ["the cookies of a test"] },
      clientDefaults: { grant_types: ["authorization_code", "refresh_token"], token_endpoint_auth_method: "none" },
      scopes: ["openid", "offline_access", "mcp"],
      pkce: { required: () => true },
      rotateRefreshToken: true,
      issueRefreshToken: async (_, client, code) => client.grantTypeAllowed("refresh_token") && code.scopes.size > 0,
      ttl: { AccessToken: this.life, RefreshToken: 3600, Grant: 3600, Session: 3600, Interaction: 600 },
      features: {
        registration: { enabled: true },
        revocation: { enabled: true },
        resourceIndicators: {
          enabled: true,
          defaultResource: () => this.url,
          useGrantedResource: () => true,
          getResourceServerInfo: (_, indicator) => resource(indicator),
        },
      },
    });
    provider.on("grant.success", (context) => {
      this.books.grants.push(context.oidc.params.grant_type);
      for (const name of ["access_token", "refresh_token", "id_token"]) {
        if (context.body[name]) this.books.secrets.add(context.body[name]);
      }
    });
    provider.on("grant.error", (context, error) => {
      this.books.grants.push(`${context.oidc?.params?.grant_type}: ${error.error}`);
    });
    this.provider = provider;
    this.handle = provider.callback();
  }

  async #answer(request, response) {
    const path = new URL(request.url, this.origin).pathname;
    if (path === "/.well-known/oauth-protected-resource/mcp") {
      const about = { resource: this.url, authorization_servers: [this.origin], scopes_supported: ["mcp"] };
      response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(about));
    } else if (path === "/mcp") {
      await this.#mcp(request, response);
    } else if (this.down) {
      request.socket.destroy();
    } else if (path === "/token" && this.failing > 0) {
      this.failing -= 1;
      response.writeHead(500).end();
    } else {
      this.handle(request, response);
    }
  }

  async #mcp(request, response) {
    const token = (request.headers.authorization ?? "").replace(/^Bearer /, "");
    const known = token && await this.provider.AccessToken.find(token);
    let body = "";
    for await (const chunk of request) body += chunk;
    if (!known || known.isExpired || known.aud !== this.url) {
      this.books.refused += 1;
      const metadata = `${this.origin}/.well-known/oauth-protected-resource/mcp`;
      return response.writeHead(401, { "www-authenticate": `Bearer resource_metadata="${metadata}"` }).end();
    }
    if (request.method !== "POST") return response.writeHead(405).end();
    const { id, method } = JSON.parse(body);
    if (id === undefined) return response.writeHead(202).end();
    const welcome = {
      protocolVersion: "2025-06-18", capabilities: { tools: {} }, serverInfo: { name: "behind", version: "1" },
    };
    const results = { initialize: welcome, "tools/list": { tools: [] } };
    if (method === "tools/call") this.books.calls += 1;
    const result = results[method] ?? { content: [{ type: "text", text: "done" }] };
    response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ jsonrpc: "2.0", id, result }));
  }

  // Nobody has a token any more.
  withdraw() {
    for (const key of [...this.database.rows.keys()]) {
      if (/^(AccessToken|RefreshToken|Grant) /.test(key)) this.database.rows.delete(key);
    }
  }

  stop() {
    this.server.closeAllConnections();
    this.server.close();
  }
}
