//! The settings of `outlive serve`: those of `outlive run`, and how clients are let in.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::BoolishValueParser;
use outlive::gateway::Builder;
use outlive::server::Http;

use crate::provider::ProviderSettings;
use crate::settings::Settings;
use crate::units::{MaybeDuration, duration, duration_or_off, size};

/// A shorter lease is over when a machine is busy for a moment.
const SHORTEST_LEASE: Duration = Duration::from_secs(1);

/// The usage of `outlive serve`.
pub const USAGE: &str = "outlive serve [OPTIONS] -- COMMAND [ARGS]...\n       outlive serve [OPTIONS] URL\n       \
     outlive serve [OPTIONS] --servers FILE";

/// What follows the help of `outlive serve`.
pub const EXAMPLES: &str = "\
Examples:
  outlive serve -- npx -y @modelcontextprotocol/server-everything
  outlive serve --listen 127.0.0.1:9000 --share --idle-stop 10m -- python server.py
  outlive serve --listen 0.0.0.0:443 --tls-cert cert.pem --tls-key key.pem --token-file tokens -- ./server
  outlive serve --oauth-issuer https://login.example.com --audience https://mcp.example.com/mcp -- ./server
  outlive serve --store file:/var/lib/outlive -- ./server
  outlive serve --store rediss://redis.example.com:6379 --store-password-file pw -- ./server
  outlive serve --store redis+sentinel://10.0.0.7:26379,10.0.0.8:26379/mymaster -- ./server
  outlive serve --store redis+cluster://10.0.0.7:6379,10.0.0.8:6379 -- ./server
  outlive serve --header 'Authorization: Bearer ${TOKEN}' https://example.com/mcp
  outlive serve --servers ~/.cursor/mcp.json
  outlive serve --config outlive.toml --servers .vscode/mcp.json --idle-stop 10m

Addresses:
  /mcp                 Streamable HTTP, 2025-03-26 to 2026-07-28 (see --path)
  /NAME/mcp            one server of --servers alone
  /sse, /messages      HTTP+SSE (2024-11-05)
  /                    what is going on, for people; needs the token, if there is one (as a password)
  /metrics             the same for Prometheus; needs the token, if there is one
  /health              200 as long as this process answers
  /ready               200 while calls would be answered, 503 with the cause while they would not

Signals:
  SIGTERM, SIGINT   stop: no new sessions, accepted requests may finish; a second one stops at once
  SIGHUP            restart the servers under their sessions; read tokens and certificates again

Exit codes:
  0   a signal stopped it
  2   a setting or the usage was wrong, or the address cannot be used
  3   a server kept failing, and --exit-on-failed was given";

// No doc comment: it would become that of the command.
#[allow(missing_docs)]
#[derive(Args, Clone, Debug)]
pub struct ServeSettings {
    /// Address to listen on; port 0 picks a free port.
    #[arg(
        long,
        env = "OUTLIVE_LISTEN",
        value_name = "ADDRESS:PORT",
        default_value = "127.0.0.1:8620",
        help_heading = "Listening"
    )]
    pub listen: String,

    /// Path of the MCP endpoint.
    #[arg(
        long,
        env = "OUTLIVE_PATH",
        value_name = "PATH",
        default_value = "/mcp",
        help_heading = "Listening"
    )]
    pub path: String,

    /// Serve HTTPS with the certificate in this PEM file; it is read again when it changes.
    #[arg(
        long,
        env = "OUTLIVE_TLS_CERT",
        value_name = "FILE",
        help_heading = "Listening"
    )]
    pub tls_cert: Option<PathBuf>,

    /// PEM file with the key of the certificate.
    #[arg(
        long,
        env = "OUTLIVE_TLS_KEY",
        value_name = "FILE",
        help_heading = "Listening"
    )]
    pub tls_key: Option<PathBuf>,

    /// Require this bearer token of every client (`Authorization: Bearer …`). Other users of this machine can read a
    /// flag: prefer the variable or --token-file.
    #[arg(
        long,
        env = "OUTLIVE_TOKEN",
        value_name = "TOKEN",
        hide_env_values = true,
        help_heading = "Clients"
    )]
    pub token: Option<String>,

    /// Require one of the tokens in this file, one per line, of every client; it is read again when it changes.
    #[arg(
        long,
        env = "OUTLIVE_TOKEN_FILE",
        value_name = "FILE",
        help_heading = "Clients"
    )]
    pub token_file: Option<PathBuf>,

    #[command(flatten)]
    pub provider: ProviderSettings,

    /// Listen on a public address without a token, because something else keeps strangers out.
    #[arg(long, env = "OUTLIVE_ALLOW_ANYONE", value_parser = BoolishValueParser::new(), help_heading = "Clients")]
    pub allow_anyone: bool,

    /// Accept this name in the Host header, besides localhost and IP addresses; `*.example.com` accepts all names that
    /// end so. May be given more than once.
    #[arg(
        long,
        env = "OUTLIVE_ALLOW_HOST",
        value_name = "NAME",
        value_delimiter = ',',
        help_heading = "Clients"
    )]
    pub allow_host: Vec<String>,

    /// Accept requests from web pages of this origin, besides those of this machine. May be given more than once.
    #[arg(
        long,
        env = "OUTLIVE_ALLOW_ORIGIN",
        value_name = "ORIGIN",
        value_delimiter = ',',
        help_heading = "Clients"
    )]
    pub allow_origin: Vec<String>,

    /// Share one server between all clients that send `initialize`, instead of starting one for each.
    #[arg(long, env = "OUTLIVE_SHARE", value_parser = BoolishValueParser::new(), help_heading = "Sharing")]
    pub share: bool,

    /// Run at most this many servers that belong to one session each, those that are being stopped included. At the
    /// limit, end a session that was unused for a minute, or refuse the new client with status 503.
    #[arg(
        long,
        env = "OUTLIVE_MAX_SERVERS",
        value_name = "N",
        default_value = "64",
        help_heading = "Sharing"
    )]
    pub max_servers: usize,

    /// Size of the server pool that answers requests without a session (2026-07-28).
    #[arg(
        long,
        env = "OUTLIVE_POOL",
        value_name = "N",
        default_value = "1",
        help_heading = "Sharing"
    )]
    pub pool: usize,

    /// Stop a shared server that nobody has used for this long; it is started when it is needed.
    #[arg(
        long,
        env = "OUTLIVE_IDLE_STOP",
        value_name = "DURATION|off",
        default_value = "off",
        value_parser = duration_or_off,
        help_heading = "Sharing",
    )]
    pub idle_stop: MaybeDuration,

    /// End a session that was unused for this long.
    #[arg(
        long,
        env = "OUTLIVE_SESSION_TTL",
        value_name = "DURATION",
        default_value = "30m",
        value_parser = duration,
        help_heading = "Sharing",
    )]
    pub session_ttl: Duration,

    /// Keep sessions here as well, so that they survive a crash, a restart and an upgrade of outlive itself: `memory`
    /// keeps them in this process only, `file:DIR` in a directory that one process uses at a time, `redis://HOST:PORT`
    /// in a Redis or Valkey that any number of processes use. `rediss://` is encrypted;
    /// `redis+sentinel://HOST,HOST/MASTER` asks sentinels, `redis+cluster://HOST,HOST` is a cluster.
    #[arg(
        long,
        env = "OUTLIVE_STORE",
        value_name = "memory|file:DIR|redis://HOST:PORT",
        default_value = "memory",
        hide_env_values = true,
        help_heading = "Sharing"
    )]
    pub store: String,

    /// Password of the Redis of --store. Other users of this machine can read a flag: prefer the variable or
    /// --store-password-file.
    #[arg(
        long,
        env = "OUTLIVE_STORE_PASSWORD",
        value_name = "PASSWORD",
        hide_env_values = true,
        help_heading = "Sharing"
    )]
    pub store_password: Option<String>,

    /// Read the password of the Redis of --store from this file.
    #[arg(
        long,
        env = "OUTLIVE_STORE_PASSWORD_FILE",
        value_name = "FILE",
        help_heading = "Sharing"
    )]
    pub store_password_file: Option<PathBuf>,

    /// With a Redis: let another process take over the sessions of one that was silent for this long. All processes
    /// that use one Redis need the same value.
    #[arg(
        long,
        env = "OUTLIVE_LEASE",
        value_name = "DURATION",
        default_value = "15s",
        value_parser = duration,
        help_heading = "Sharing",
    )]
    pub lease: Duration,

    /// Where other processes that use the same store reach this one, for example http://10.0.0.5:8620. They forward
    /// requests of its sessions there.
    #[arg(
        long,
        env = "OUTLIVE_ADVERTISE",
        value_name = "URL",
        help_heading = "Sharing"
    )]
    pub advertise: Option<String>,

    /// Sign what is forwarded to other processes with the first secret in this file (one in a line), and accept what
    /// was signed with any. The file is read again when it changes.
    #[arg(
        long,
        env = "OUTLIVE_REPLICA_SECRET_FILE",
        value_name = "FILE",
        help_heading = "Sharing"
    )]
    pub replica_secret_file: Option<PathBuf>,

    /// Keep at most this many sessions. At the limit, end the session unused longest (over a minute) or refuse the
    /// client with status 503.
    #[arg(
        long,
        env = "OUTLIVE_MAX_SESSIONS",
        value_name = "N",
        default_value = "4096",
        help_heading = "Limits"
    )]
    pub max_sessions: usize,

    /// Accept at most this many connections at once; others wait.
    #[arg(
        long,
        env = "OUTLIVE_MAX_CONNECTIONS",
        value_name = "N",
        default_value = "16384",
        help_heading = "Limits"
    )]
    pub max_connections: usize,

    /// Keep at most this many streams open for clients that only listen.
    #[arg(
        long,
        env = "OUTLIVE_MAX_STREAMS",
        value_name = "N",
        default_value = "8192",
        help_heading = "Limits"
    )]
    pub max_streams: usize,

    /// Longest head (request line and headers) of an HTTP request.
    #[arg(
        long,
        env = "OUTLIVE_HEAD_LIMIT",
        value_name = "SIZE",
        default_value = "64KiB",
        value_parser = size,
        help_heading = "Limits",
    )]
    pub head_limit: usize,

    /// Buffer at most this many bytes of incomplete messages, over all clients. At the limit, drop a message whose
    /// client has sent nothing for 5 s, or refuse the new one with status 503.
    #[arg(
        long,
        env = "OUTLIVE_MAX_BODY_BYTES",
        value_name = "SIZE",
        default_value = "256MiB",
        value_parser = size,
        help_heading = "Limits",
    )]
    pub max_body_bytes: usize,

    /// Close a connection whose client takes longer than this to send a request's head, its body, or the next request.
    #[arg(
        long,
        env = "OUTLIVE_READ_TIMEOUT",
        value_name = "DURATION",
        default_value = "60s",
        value_parser = duration,
        help_heading = "Limits",
    )]
    pub read_timeout: Duration,

    /// Close a connection whose client has read nothing for this long.
    #[arg(
        long,
        env = "OUTLIVE_WRITE_TIMEOUT",
        value_name = "DURATION",
        default_value = "60s",
        value_parser = duration,
        help_heading = "Limits",
    )]
    pub write_timeout: Duration,

    /// Send a comment on a stream that has been silent for this long.
    #[arg(
        long,
        env = "OUTLIVE_KEEP_ALIVE",
        value_name = "DURATION",
        default_value = "15s",
        value_parser = duration,
        help_heading = "Limits",
    )]
    pub keep_alive: Duration,

    #[command(flatten)]
    pub run: Settings,
}

impl ServeSettings {
    /// The address to listen at, or what is wrong with it. A port alone is one of this machine's own.
    pub fn address(&self) -> Result<String, String> {
        let listen = self.listen.trim();
        let wrong = |why: String| Err(format!("listen is {listen:?}: {why}"));
        if listen.contains("://") || listen.contains('/') {
            return wrong("an address and a port are wanted, for example 127.0.0.1:8620".into());
        }
        let alone = listen.strip_prefix(':').unwrap_or(listen);
        if !alone.is_empty() && alone.bytes().all(|byte| byte.is_ascii_digit()) {
            return port(alone).map_or_else(wrong, |port| Ok(format!("127.0.0.1:{port}")));
        }
        let bare = listen.trim_start_matches('[').trim_end_matches(']');
        match (bare.parse::<IpAddr>(), listen.rsplit_once(':')) {
            (Ok(IpAddr::V6(address)), _) => {
                wrong(format!("the port is missing, for example [{address}]:8620"))
            }
            (Ok(IpAddr::V4(_)), _) | (Err(_), None) => {
                wrong(format!("the port is missing, for example {listen}:8620"))
            }
            (Err(_), Some(("", _))) => wrong("the address is missing".into()),
            (Err(_), Some((_, number))) => {
                port(number).map_or_else(wrong, |_| Ok(listen.to_owned()))
            }
        }
    }

    /// How the servers of a target are shared.
    pub fn share(&self, builder: Builder) -> Builder {
        let builder = builder
            .share(self.share)
            .max_servers(self.max_servers)
            .pool(self.pool);
        match self.idle_stop.0 {
            Some(after) => builder.idle_stop(after),
            None => builder,
        }
    }

    /// These settings for what is to be served, or why they make no sense.
    pub fn apply(&self, http: Http) -> Result<Http, String> {
        self.check()?;
        let mut http = http
            .set_by_flags()
            .path(&self.path)
            .session_ttl(self.session_ttl)
            .max_sessions(self.max_sessions)
            .max_connections(self.max_connections)
            .max_streams(self.max_streams)
            .head_limit(self.head_limit)
            .max_body_bytes(self.max_body_bytes)
            .read_timeout(self.read_timeout)
            .write_timeout(self.write_timeout)
            .keep_alive(self.keep_alive);
        http = self.allow_host.iter().fold(http, Http::allow_host);
        http = self.allow_origin.iter().fold(http, Http::allow_origin);
        if self.allow_anyone {
            http = http.allow_anyone();
        }
        if let Some(token) = &self.token {
            http = http.token(token.trim());
        }
        if let Some(file) = &self.token_file {
            http = http.token_file(file);
        }
        if let Some(url) = &self.advertise {
            http = http.advertise(url);
        }
        if let Some(file) = &self.replica_secret_file {
            http = http.replica_secret_file(file);
        }
        if let Some(provider) = self.provider.read()? {
            http = http.identity_provider(provider);
        }
        if let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) {
            http = http.tls(certificate, key);
        }
        Ok(http)
    }

    /// What a single value cannot tell: whether the settings make sense.
    pub fn check(&self) -> Result<(), String> {
        const OURS: [&str; 6] = ["/", "/sse", "/messages", "/health", "/ready", "/metrics"];
        let path = self.path.as_str();
        if !path.starts_with('/') || path.contains(['?', '#', ' ']) {
            return Err(format!(
                "path is {path:?}: a path begins with / and has no query"
            ));
        }
        if OURS.contains(&path) {
            return Err(format!(
                "path is {path:?}: there is something else at this address"
            ));
        }
        if self.token.is_some() && self.token_file.is_some() {
            return Err("token and token-file are both given: one of them is enough".into());
        }
        if self.advertise.is_some() && self.replica_secret_file.is_none() {
            return Err("advertise needs replica-secret-file: without it nobody could tell requests of replicas from \
                        those of strangers"
                .into());
        }
        if self.tls_cert.is_some() != self.tls_key.is_some() {
            return Err("tls-cert and tls-key belong together".into());
        }
        if self.store_password.is_some() && self.store_password_file.is_some() {
            let why =
                "store-password and store-password-file are both given: one of them is enough";
            return Err(why.into());
        }
        if self.lease < SHORTEST_LEASE {
            return Err(format!(
                "lease is {:?}: processes that are only slow would lose their sessions; 1s is the least",
                self.lease
            ));
        }
        if self
            .token
            .as_ref()
            .is_some_and(|token| token.trim().is_empty())
        {
            return Err("token is empty: everybody could show that".into());
        }
        let shown = |token: &String| token.trim().bytes().all(|byte| matches!(byte, b' '..=b'~'));
        if !self.token.as_ref().is_none_or(shown) {
            return Err("token has characters that no client can send: use visible ASCII".into());
        }
        let zero = [
            ("pool", self.pool == 0, "nobody would answer"),
            ("max-servers", self.max_servers == 0, "nobody could connect"),
            (
                "max-sessions",
                self.max_sessions == 0,
                "nobody could connect",
            ),
            (
                "max-connections",
                self.max_connections == 0,
                "nobody could connect",
            ),
            (
                "session-ttl",
                self.session_ttl.is_zero(),
                "no session would last",
            ),
            (
                "read-timeout",
                self.read_timeout.is_zero(),
                "no request arrives in no time",
            ),
            (
                "write-timeout",
                self.write_timeout.is_zero(),
                "no answer arrives in no time",
            ),
            (
                "keep-alive",
                self.keep_alive.is_zero(),
                "streams would carry nothing else",
            ),
            (
                "idle-stop",
                self.idle_stop.0 == Some(Duration::ZERO),
                "use \"off\" to keep servers",
            ),
        ];
        match zero.iter().find(|(_, is_zero, _)| *is_zero) {
            Some((name, _, why)) => Err(format!("{name} is 0: {why}")),
            None => Ok(()),
        }
    }
}

fn port(text: &str) -> Result<u16, String> {
    let wrong = |_| format!("{text:?} is no port: that is a number from 0 to 65535");
    text.parse().map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Command, FromArgMatches};

    fn settings(args: &[&str]) -> ServeSettings {
        let command = ServeSettings::augment_args(Command::new("serve"));
        let matches = command.try_get_matches_from([&["serve"], args].concat());
        ServeSettings::from_arg_matches(&matches.expect("settings")).expect("settings")
    }

    #[test]
    fn a_port_alone_is_one_of_this_machine() {
        let address = |listen: &str| settings(&["--listen", listen, "cat"]).address().unwrap();
        assert_eq!(address("9000"), "127.0.0.1:9000");
        assert_eq!(address(":0"), "127.0.0.1:0");
        assert_eq!(address("0.0.0.0:80"), "0.0.0.0:80");
        assert_eq!(address("[::1]:80"), "[::1]:80");
        assert_eq!(address("localhost:80"), "localhost:80");
        assert_eq!(settings(&["cat"]).address().unwrap(), "127.0.0.1:8620");
    }

    #[test]
    fn what_is_wrong_with_an_address_is_named() {
        for (listen, words) in [
            (
                "127.0.0.1",
                "the port is missing, for example 127.0.0.1:8620",
            ),
            (
                "localhost",
                "the port is missing, for example localhost:8620",
            ),
            ("::1", "the port is missing, for example [::1]:8620"),
            ("[::1]", "the port is missing, for example [::1]:8620"),
            ("99999", "\"99999\" is no port"),
            ("localhost:http", "\"http\" is no port"),
            ("localhost:", "\"\" is no port"),
            (
                "http://127.0.0.1:80/mcp",
                "an address and a port are wanted",
            ),
            ("", "the port is missing"),
            (":x", "the address is missing"),
        ] {
            let why = settings(&["--listen", listen, "cat"])
                .address()
                .unwrap_err();
            assert!(why.starts_with(&format!("listen is {listen:?}: ")), "{why}");
            assert!(why.contains(words), "{listen}: {why}");
        }
    }

    #[test]
    fn settings_that_make_no_sense_are_refused() {
        for (flag, word) in [
            ("--path=mcp", "begins with /"),
            ("--path=/ready", "something else"),
            ("--path=/a?b", "no query"),
            ("--token= ", "everybody"),
            ("--token=s\u{e9}same", "visible ASCII"),
            ("--max-servers=0", "max-servers"),
            ("--pool=0", "pool"),
            ("--idle-stop=0s", "off"),
            ("--keep-alive=0s", "keep-alive"),
            ("--lease=200ms", "1s is the least"),
            ("--advertise=http://10.0.0.5:8620", "replica-secret-file"),
        ] {
            let refusal = settings(&[flag, "cat"]).check().unwrap_err();
            assert!(refusal.contains(word), "{refusal}");
        }
        assert_eq!(settings(&["cat"]).check(), Ok(()));
    }
}
