// The TypeScript SDK as an OAuth client of a server that wants tokens: it finds out where, registers, and logs in.
//
// usage: node typescript_oauth.mjs sdk|client URL PROVIDER      prints one JSON object
//
// PROVIDER is tests/logins/identity.mjs; somebody there follows links.

const [generation, url, provider] = process.argv.slice(2);
const v1 = generation === 'sdk';
const { Client } = await import(v1 ? '@modelcontextprotocol/sdk/client/index.js' : '@modelcontextprotocol/client');
const { StreamableHTTPClientTransport } = await import(
    v1 ? '@modelcontextprotocol/sdk/client/streamableHttp.js' : '@modelcontextprotocol/client'
);
const { UnauthorizedError } = await import(
    v1 ? '@modelcontextprotocol/sdk/client/auth.js' : '@modelcontextprotocol/client'
);

const links = [];
const kept = {};
const login = {
    redirectUrl: 'http://127.0.0.1:9/callback',
    clientMetadata: {
        client_name: 'a client',
        redirect_uris: ['http://127.0.0.1:9/callback'],
        grant_types: ['authorization_code', 'refresh_token'],
        response_types: ['code'],
        token_endpoint_auth_method: 'none'
    },
    state: () => 'a state',
    clientInformation: () => kept.client,
    saveClientInformation: client => void (kept.client = client),
    tokens: () => kept.tokens,
    saveTokens: tokens => void (kept.tokens = tokens),
    redirectToAuthorization: link => void links.push(link.href),
    saveCodeVerifier: verifier => void (kept.verifier = verifier),
    codeVerifier: () => kept.verifier
};

const connect = async () => {
    const client = new Client({ name: 'typescript-host', version: '0' }, { capabilities: {} });
    const transport = new StreamableHTTPClientTransport(new URL(url), { authProvider: login });
    try {
        await client.connect(transport);
        return client;
    } catch (error) {
        if (!(error instanceof UnauthorizedError)) throw error;
        const answer = await fetch(`${provider}/test/person?link=${encodeURIComponent(links.at(-1))}`);
        const end = new URL(await answer.text()).searchParams;
        await transport.finishAuth(v1 ? end.get('code') : end);
        return undefined;
    }
};

const first = await connect();
const client = await connect();
const text = async name => (await client.callTool({ name, arguments: {} })).content[0].text;
const told = { asked: first === undefined, first: await text('ping') };
const token = kept.tokens.access_token;
// The server refuses it: the SDK refreshes and sends again.
kept.tokens = { ...kept.tokens, access_token: 'spoiled' };
told['after a refusal'] = await text('ping');
told['another token'] = ![token, 'spoiled'].includes(kept.tokens.access_token);
told.links = links;
await client.close();
console.log(JSON.stringify(told));
process.exit(0);
