//! Logins: `outlive login`, `outlive logout`, `outlive logins`, and what `run` and `serve` do when a server wants one.

use std::io::{self, BufRead, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use clap::{Args, ValueEnum};
use outlive::Remote;
use outlive::oauth::{Ending, Notice, OAuth, OAuthOptions, StoredLogin, TokenStore, Way};
use serde_json::json;

use crate::log::Notes;
use crate::places;
use crate::remote::RemoteSettings;
use crate::runtime::runtime;
use crate::terminal::print;
use crate::units::duration;

/// What `--token-store` may say in place of a folder.
const AUTO: &str = "auto";
const KEYRING: &str = "keyring";
const FILE: &str = "file";
const NONE: &str = "none";

/// What follows the help of `outlive login`.
pub const EXAMPLES: &str = "\
Examples:
  outlive login https://example.com/mcp
  outlive login --login link https://example.com/mcp     # no browser here: open the link anywhere, paste where it ends
  outlive login --login device https://example.com/mcp   # enter a code on another device

Exit codes:
  0   logged in
  1   the login did not succeed
  2   a setting or the usage was wrong";

/// How logins at servers over HTTP are made and kept.
#[derive(Args, Clone, Debug)]
pub struct LoginSettings {
    /// How to log in at a server that wants it.
    #[arg(
        long,
        env = "OUTLIVE_LOGIN",
        value_enum,
        default_value = "auto",
        help_heading = "Servers over HTTP"
    )]
    pub login: LoginWay,

    /// Give a person this long to log in.
    #[arg(
        long,
        env = "OUTLIVE_LOGIN_TIMEOUT",
        value_name = "DURATION",
        default_value = "5m",
        value_parser = duration,
        help_heading = "Servers over HTTP"
    )]
    pub login_timeout: Duration,

    /// Keep logins so that only the system's keyring can open them (`keyring`), in a file that only you can read (`file`,
    /// or a folder for such files), or in memory (`none`). `auto` is `keyring` where there is one, else `file`.
    #[arg(
        long,
        env = "OUTLIVE_TOKEN_STORE",
        value_name = "auto|keyring|file|none|FOLDER",
        default_value = AUTO,
        help_heading = "Servers over HTTP"
    )]
    pub token_store: PathBuf,

    /// Log in as this client: one that was registered beforehand, or the https address of its metadata document.
    #[arg(
        long,
        env = "OUTLIVE_CLIENT_ID",
        value_name = "ID",
        help_heading = "Servers over HTTP"
    )]
    pub client_id: Option<String>,

    /// Secret of that client. Other users of this machine can read flags: prefer the variable.
    #[arg(
        long,
        env = "OUTLIVE_CLIENT_SECRET",
        value_name = "SECRET",
        hide_env_values = true,
        help_heading = "Servers over HTTP"
    )]
    pub client_secret: Option<String>,

    /// Private key of that client, in place of a secret: a PEM file (PKCS #8, P-256 or RSA).
    #[arg(
        long,
        env = "OUTLIVE_CLIENT_KEY",
        value_name = "FILE",
        help_heading = "Servers over HTTP"
    )]
    pub client_key: Option<PathBuf>,

    /// Ask for this scope too. May be given more than once (in a variable: one per line).
    #[arg(
        long,
        env = "OUTLIVE_SCOPE",
        value_name = "SCOPE",
        value_delimiter = '\n',
        help_heading = "Servers over HTTP"
    )]
    pub scope: Vec<String>,

    /// Port on this machine that a login in a browser ends at; without it, any that is free.
    #[arg(
        long,
        env = "OUTLIVE_CALLBACK_PORT",
        value_name = "PORT",
        help_heading = "Servers over HTTP"
    )]
    pub callback_port: Option<u16>,

    /// Let a server somewhere else name an authorization server on this network or machine.
    #[arg(
        long,
        env = "OUTLIVE_ALLOW_PRIVATE_LOGIN",
        value_parser = clap::builder::BoolishValueParser::new(),
        help_heading = "Servers over HTTP"
    )]
    pub allow_private_login: bool,

    // `--hold`: a call waits for a login as it waits for a server.
    #[arg(skip)]
    pub wait: Option<Duration>,

    // The host is the program of the person who logs in; clients of `serve` are anybody's.
    #[arg(skip)]
    pub tell_host: bool,
}

/// How a login is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LoginWay {
    /// Open a browser, and tell the link
    Auto,
    /// Only tell the link
    Link,
    /// Tell a link and a code, for a browser on another device
    Device,
    /// Log in without a person, by the secret or the key of the client
    Machine,
    /// Ask nobody; use and refresh what `outlive login` has kept
    Never,
}

impl LoginSettings {
    fn way(&self) -> Way {
        match self.login {
            LoginWay::Auto | LoginWay::Link => Way::Browser,
            LoginWay::Device => Way::Device,
            LoginWay::Machine => Way::Machine,
            LoginWay::Never => Way::Never,
        }
    }

    fn store(&self) -> Result<TokenStore, String> {
        store_of(&self.token_store)
    }

    /// These settings, for the server with these others.
    fn options(&self, remote: &RemoteSettings) -> Result<OAuthOptions, String> {
        let key = self.client_key.as_ref().map(|file| {
            let shown = file.display();
            std::fs::read_to_string(file).map_err(|error| format!("cannot read {shown}: {error}"))
        });
        let mut options = OAuthOptions::default();
        options.way = self.way();
        options.store = self.store()?;
        options.client_id = self.client_id.clone();
        options.client_secret = self.client_secret.clone();
        options.client_key = key.transpose()?;
        options.scopes = self.scope.clone();
        options.callback_port = self.callback_port;
        options.login_timeout = self.login_timeout;
        options.wait = self.wait.unwrap_or(options.wait);
        options.tell_host = self.tell_host;
        options.allow_private = self.allow_private_login;
        options.ca_file = remote.ca_file.clone();
        Ok(options)
    }
}

impl RemoteSettings {
    /// The same, for calls that wait this long for a server.
    pub fn holding(&self, hold: Duration) -> RemoteSettings {
        let mut settings = self.clone();
        settings.login.wait = Some(hold);
        settings
    }

    /// The server, with a login if it wants one; unless the user has written its credentials down.
    pub fn with_login(&self, remote: Remote, url: &str) -> Result<Remote, String> {
        if remote.has_authorization() {
            return Ok(remote);
        }
        let browser = self.login.login == LoginWay::Auto;
        let options = self.login.options(self)?;
        let login = OAuth::new(url, options, move |notice| tell(&notice, browser))?;
        let mut endings = endings();
        // A file of servers that is read again has others each time.
        endings.retain(|it| !it.is_over());
        endings.push(login.ending());
        Ok(remote.credentials(login))
    }
}

/// How the logins end that were begun.
static ENDINGS: Mutex<Vec<Ending>> = Mutex::new(Vec::new());

fn endings() -> MutexGuard<'static, Vec<Ending>> {
    ENDINGS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Drives this to its end, and then ends all logins: what was exchanged for one is kept before the program ends.
pub async fn finished<T>(all: impl Future<Output = T>) -> T {
    let came = all.await;
    let endings = std::mem::take(&mut *endings());
    let ends: Vec<_> = endings
        .into_iter()
        .map(|it| tokio::spawn(it.finish()))
        .collect();
    for end in ends {
        let _ = end.await;
    }
    came
}

fn sealed(folder: PathBuf, or_plain: bool) -> TokenStore {
    TokenStore::Keyring { folder, or_plain }
}

/// The store that `--token-store` means.
fn store_of(word: &Path) -> Result<TokenStore, String> {
    let usual = |store: fn(PathBuf) -> TokenStore| match places::login_folder() {
        Some(folder) => checked(store(folder.clone()), &folder),
        None if word == Path::new(AUTO) => Ok(TokenStore::Memory),
        None => Err("there is no folder for logins: name one with --token-store".into()),
    };
    match word.to_str() {
        Some(AUTO) => usual(|folder| sealed(folder, true)),
        Some(KEYRING) => usual(|folder| sealed(folder, false)),
        Some(FILE) => usual(TokenStore::Folder),
        Some(NONE) => Ok(TokenStore::Memory),
        _ => checked(TokenStore::Folder(word.to_owned()), word),
    }
}

/// This store, if nobody else can get at its folder.
fn checked(store: TokenStore, folder: &Path) -> Result<TokenStore, String> {
    if folder.symlink_metadata().is_ok() {
        places::check_private(folder)?;
    }
    Ok(store)
}

/// Where a running `run` or `serve` writes what a login has to tell.
static NOTES: OnceLock<Notes> = OnceLock::new();

/// From now on logins tell what they have to in this log.
pub fn tell_in(notes: Notes) {
    let _ = NOTES.set(notes);
}

/// Tells a person what a login wants, and opens a browser if one is to be opened.
fn tell(notice: &Notice, browser: bool) {
    let (sentence, name, data) = match notice {
        Notice::Open { link, code } => {
            let opened = browser && code.is_none() && open(link);
            let also = if opened {
                "a browser was opened; if you see none, "
            } else {
                ""
            };
            let code = code
                .as_ref()
                .map(|it| format!(" and enter {it}"))
                .unwrap_or_default();
            let sentence = format!("the server wants a login: {also}open {link}{code}");
            (
                sentence,
                "login_wanted",
                json!({ "link": link, "opened": opened }),
            )
        }
        Notice::LoggedIn => ("logged in".into(), "logged_in", json!({})),
        Notice::Failed(why) => {
            let sentence = format!("the login did not succeed: {why}");
            (sentence, "login_failed", json!({ "why": why }))
        }
        Notice::Warning(why) => (why.clone(), "login_warning", json!({ "why": why })),
        _ => return,
    };
    match NOTES.get() {
        Some(notes) => notes.note(&sentence, name, data),
        None => eprintln!("outlive: {sentence}"),
    }
}

/// Opens a link in the user's browser, if there can be one. Whether it was begun.
fn open(link: &str) -> bool {
    let chosen = std::env::var("BROWSER").ok().filter(|it| !it.is_empty());
    let somewhere = |name: &str| std::env::var_os(name).is_some_and(|it| !it.is_empty());
    let words: Vec<String> = match chosen {
        Some(chosen) => {
            let first = chosen.split(':').next().unwrap_or_default();
            first.split_whitespace().map(Into::into).collect()
        }
        None if cfg!(target_os = "macos") => vec!["open".into()],
        None if cfg!(windows) => vec!["rundll32".into(), "url.dll,FileProtocolHandler".into()],
        None if somewhere("DISPLAY") || somewhere("WAYLAND_DISPLAY") => vec!["xdg-open".into()],
        None => return false,
    };
    let Some((program, args)) = words.split_first() else {
        return false;
    };
    // Standard output is the host's.
    let begun = Command::new(program)
        .args(args)
        .arg(link)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    match begun {
        Ok(mut child) => {
            std::thread::spawn(move || child.wait());
            true
        }
        Err(_) => false,
    }
}

/// `outlive login`.
#[derive(Args, Debug)]
pub struct LoginArgs {
    /// Address of the server.
    url: String,

    #[command(flatten)]
    remote: RemoteSettings,
}

/// Logs in, whatever is kept.
pub fn log_in(args: &LoginArgs) -> Result<ExitCode, String> {
    let settings = &args.remote.login;
    let mut options = settings.options(&args.remote)?;
    if options.way == Way::Never {
        options.way = Way::Browser;
    }
    if options.store == TokenStore::Memory {
        return Err("there is nowhere to keep a login: name a folder with --token-store".into());
    }
    let pastes = options.way == Way::Browser && io::stdin().is_terminal();
    let browser = settings.login == LoginWay::Auto;
    let told = Arc::new(AtomicBool::new(false));
    let telling = told.clone();
    let login = OAuth::new(&args.url, options, move |notice| {
        tell(&notice, browser);
        if matches!(notice, Notice::Failed(_)) {
            telling.store(true, Ordering::Relaxed);
        }
        if pastes && matches!(notice, Notice::Open { .. }) {
            eprintln!(
                "If the browser is on another machine, paste the address that it ends at here:"
            );
        }
    })?;
    let reader = login.clone();
    if settings.login != LoginWay::Device {
        std::thread::spawn(move || {
            for line in io::stdin().lock().lines().map_while(Result::ok) {
                reader.paste(&line);
            }
        });
    }
    let runtime = runtime().map_err(|error| error.to_string())?;
    let logged_in = runtime.block_on(login.log_in());
    // Whoever reads standard input cannot be waited for.
    runtime.shutdown_background();
    Ok(match logged_in {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            if !told.load(Ordering::Relaxed) {
                eprintln!("outlive: {why}");
            }
            ExitCode::FAILURE
        }
    })
}

/// `outlive logout`.
#[derive(Args, Debug)]
pub struct LogoutArgs {
    /// Address of the server.
    url: String,

    #[command(flatten)]
    remote: RemoteSettings,
}

/// Forgets a login.
pub fn log_out(args: &LogoutArgs) -> Result<ExitCode, String> {
    let options = args.remote.login.options(&args.remote)?;
    let login = OAuth::new(&args.url, options, |notice| tell(&notice, false))?;
    let runtime = runtime().map_err(|error| error.to_string())?;
    let there = runtime.block_on(login.log_out())?;
    eprintln!(
        "outlive: {}",
        match there {
            true => "logged out",
            false => "there was no login at that server",
        }
    );
    Ok(ExitCode::SUCCESS)
}

/// `outlive logins`.
#[derive(Args, Debug)]
pub struct LoginsArgs {
    /// One JSON object per line.
    #[arg(long)]
    json: bool,

    /// Where logins are kept, as other commands were told.
    #[arg(
        long,
        env = "OUTLIVE_TOKEN_STORE",
        value_name = "auto|keyring|file|none|FOLDER",
        default_value = AUTO
    )]
    token_store: PathBuf,
}

/// Shows what is kept; never a secret.
pub fn list(args: &LoginsArgs) -> Result<ExitCode, String> {
    let store = store_of(&args.token_store)?;
    let logins = store.logins().map_err(|error| error.to_string())?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = now.unwrap_or_default();
    let line = |login: &StoredLogin| match args.json {
        true => {
            let about = json!({
                "server": login.server,
                "issuer": login.issuer,
                "client_id": login.client_id,
                "scopes": login.scopes,
                "expires": login.expires.map(|at| at.as_secs()),
                "renewable": login.renewable,
                "keyring": login.sealed,
            });
            format!("{about}\n")
        }
        false => format!(
            "{}  at {}, {}{}\n",
            login.server,
            login.issuer,
            lasts(login, now),
            match login.sealed {
                true => ", sealed by the system's keyring",
                false => "",
            }
        ),
    };
    if logins.is_empty() && !args.json {
        eprintln!("outlive: there are no logins");
    }
    print(&logins.iter().map(line).collect::<String>());
    Ok(ExitCode::SUCCESS)
}

/// How long a login lasts, in words.
fn lasts(login: &StoredLogin, now: Duration) -> String {
    match (login.renewable, login.expires) {
        (true, _) => "renewed by itself".into(),
        (false, None) => "lasts until the server refuses it".into(),
        (false, Some(at)) if at <= now => "expired".into(),
        (false, Some(at)) => {
            let left = Duration::from_secs((at - now).as_secs());
            format!("expires in {}", humantime::format_duration(left))
        }
    }
}
