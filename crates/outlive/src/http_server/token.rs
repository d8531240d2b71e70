//! What clients have to show.
//!
//! Tokens are given as words, or stand in a file, one in a line. With two in the file both are good,
//! so that a token can be replaced without a moment in which nobody has the right one. The file is
//! read again when it has changed; one that cannot be read, or holds none, changes nothing.
//!
//! A token may be good for a view of a gateway only: its line then ends with ` view=NAME`. Whoever shows it finds that
//! view where others find everything, and nothing else.
//!
//! A token names a [`Principal`]: what was opened with it belongs to whoever shows the same token again, wherever it
//! stands in the file by then. When it is no longer in the file it is withdrawn, and with it all that was opened.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, SystemTime};

use outlive_core::session_table::Principal;
use outlive_core::verifier::VerifierPolicy;
use subtle::ConstantTimeEq;
use tokio::sync::Notify;
use tokio::time::sleep;

use super::user::User;

/// What the label of a token begins with.
pub(super) const TOKEN_LABEL: &str = "token:";

/// The tokens that are good at the moment. Clones are the same.
#[derive(Clone)]
pub(crate) struct Tokens {
    file: Option<PathBuf>,
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    good: RwLock<Vec<Token>>,
    /// How many there have been.
    count: AtomicU64,
    /// Rings when one is withdrawn.
    withdrawn: Notify,
    /// Tells whether there is a view of a name. Without it all are believed.
    has_view: OnceLock<HasView>,
    /// Why the file could not be used the last time it was read.
    problem: Mutex<Option<String>>,
}

/// Tells whether there is a view of a name.
type HasView = Box<dyn Fn(&str) -> bool + Send + Sync>;

struct Token {
    word: String,
    credential: Arc<Credential>,
}

/// Proof that a good token was shown, for as long as it is good.
#[derive(Debug)]
pub(crate) struct Credential {
    principal: Principal,
    /// The view that it is good for, if not for everything.
    view: Option<Box<str>>,
    /// A digest of the token and its view.
    label: Box<str>,
    withdrawn: AtomicBool,
    bell: Notify,
}

impl Credential {
    pub(crate) fn principal(&self) -> Principal {
        self.principal
    }

    /// The view that it is good for, if not for everything.
    pub(crate) fn view(&self) -> Option<&str> {
        self.view.as_deref()
    }

    pub(crate) fn is_good(&self) -> bool {
        !self.withdrawn.load(Ordering::Acquire)
    }

    fn withdraw(&self) {
        self.withdrawn.store(true, Ordering::Release);
        self.bell.notify_waiters();
    }

    /// Waits until the token is no longer good.
    pub(crate) async fn ends(self: Arc<Credential>) {
        loop {
            // In this order: an end between the two is not missed.
            let bell = self.bell.notified();
            if !self.is_good() {
                return;
            }
            bell.await;
        }
    }
}

/// Who sends a request: what [authentication](super::AccessRules::authenticate) returns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Identity {
    /// Proof of its token, where one is needed.
    credential: Option<Arc<Credential>>,
    /// Whom an identity provider has vouched for.
    user: Option<User>,
    /// Who it is where none is needed.
    known: Option<Principal>,
}

impl Identity {
    /// Who it is. There is no secret in it.
    pub(crate) fn principal(&self) -> Principal {
        let credential = self.credential.as_deref();
        let user = self.user.as_ref().map(|user| user.person.principal);
        let principal = credential.map(Credential::principal).or(user);
        principal.or(self.known).unwrap_or(Principal::Anyone)
    }

    /// Whom an identity provider has vouched for.
    pub(crate) fn user(&self) -> Option<&User> {
        self.user.as_ref()
    }

    /// What it is called where people look.
    pub(crate) fn name(&self) -> String {
        match &self.user {
            Some(user) => format!("{}, {}", user.name(), self.principal()),
            None => self.principal().to_string(),
        }
    }

    /// Whether it may look at the page, and act on servers.
    pub(crate) fn is_operator(&self) -> bool {
        let user = self.user.as_ref();
        user.map_or(self.view().is_none(), |user| user.access().operator)
    }

    /// A word for who it is that another process has for it, too, and that is no secret.
    pub(crate) fn label(&self) -> String {
        match (&self.credential, &self.user) {
            (Some(credential), _) => credential.label.to_string(),
            (None, Some(user)) => user.person.label.to_string(),
            (None, None) => self.principal().to_string(),
        }
    }

    /// Whom somebody else has found it to be, unless it has shown a token here.
    pub(crate) fn or(mut self, known: Option<Principal>) -> Identity {
        self.known = known;
        self
    }

    /// The view that it may see, if not everything.
    pub(crate) fn view(&self) -> Option<&str> {
        match &self.user {
            Some(user) => user.access().view.as_deref(),
            None => self.credential.as_deref()?.view(),
        }
    }

    /// Whether it may still do what it does.
    pub(crate) fn is_good(&self) -> bool {
        self.credential.as_deref().is_none_or(Credential::is_good)
    }

    /// Ready when its token has expired; `None` if that does not happen. The clock on the wall may be set meanwhile.
    pub(crate) fn expiry(&self) -> Option<impl Future<Output = ()> + Send + Sync + use<>> {
        const LONGEST_SLEEP: Duration = Duration::from_secs(60);
        let leeway = VerifierPolicy::default().leeway;
        let end = self.user.as_ref()?.expires()?.saturating_add(leeway);
        Some(async move {
            loop {
                let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
                let left = end.saturating_sub(now.unwrap_or_default());
                if left.is_zero() {
                    return;
                }
                sleep(left.min(LONGEST_SLEEP)).await;
            }
        })
    }

    /// Ready when it may not any more; `None` if that cannot happen.
    pub(crate) fn withdrawal(&self) -> Option<impl Future<Output = ()> + Send + Sync + use<>> {
        self.credential.clone().map(Credential::ends)
    }
}

impl From<Arc<Credential>> for Identity {
    fn from(credential: Arc<Credential>) -> Identity {
        Identity {
            credential: Some(credential),
            ..Identity::default()
        }
    }
}

impl From<User> for Identity {
    fn from(user: User) -> Identity {
        Identity {
            user: Some(user),
            ..Identity::default()
        }
    }
}

impl Tokens {
    /// This one.
    pub(crate) fn word(token: String) -> Tokens {
        let tokens = Tokens {
            file: None,
            inner: Arc::default(),
        };
        tokens.replace(vec![Line::of_everything(token)]);
        tokens
    }

    /// Those in this file, once it has been [read](Tokens::read).
    pub(crate) fn file(path: PathBuf) -> Tokens {
        Tokens {
            file: Some(path),
            inner: Arc::default(),
        }
    }

    pub(crate) fn path(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    fn good(&self) -> RwLockReadGuard<'_, Vec<Token>> {
        let good = &self.inner.good;
        good.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the file, if there is one; a sentence if that cannot be done.
    pub(crate) fn read(&self) -> Result<(), String> {
        let read = self.read_file();
        let problem = self.inner.problem.lock();
        *problem.unwrap_or_else(PoisonError::into_inner) = read.clone().err();
        read
    }

    /// Why the file could not be used the last time it was read. Then what was read before is still good.
    pub(crate) fn problem(&self) -> Option<String> {
        let problem = self.inner.problem.lock();
        problem.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn read_file(&self) -> Result<(), String> {
        let Some(path) = &self.file else {
            return Ok(());
        };
        let text = fs::read_to_string(path)
            .map_err(|error| format!("cannot read the tokens in {}: {error}", path.display()))?;
        let lines = lines(&text).map_err(|line| {
            format!(
                "the token in line {line} of {} has characters that no client can send: use visible ASCII",
                path.display()
            )
        })?;
        if lines.is_empty() {
            let path = path.display();
            return Err(format!(
                "there is no token in {path}: one in a line is expected"
            ));
        }
        let has_view = self.inner.has_view.get();
        let mut views = lines.iter().filter_map(|line| line.view.as_deref());
        if let Some(view) = views.find(|view| has_view.is_some_and(|has| !has(view))) {
            return Err(format!(
                "a token in {} is good for the view {view:?}, which there is not",
                path.display()
            ));
        }
        self.replace(lines);
        Ok(())
    }

    /// From now on a file with a token for a view that there is not is refused.
    pub(crate) fn check_views(&self, has_view: impl Fn(&str) -> bool + Send + Sync + 'static) {
        let _ = self.inner.has_view.set(Box::new(has_view));
    }

    /// These are good from now on. One that was good before is the same as before.
    fn replace(&self, lines: Vec<Line>) {
        let inner = &self.inner;
        let mut good = inner.good.write().unwrap_or_else(PoisonError::into_inner);
        let mut old = std::mem::take(&mut *good);
        for Line { word, view } in lines {
            // With another view it is another token.
            let same = |token: &Token| token.word == word && token.credential.view == view;
            match old.iter().position(same) {
                Some(at) => good.push(old.swap_remove(at)),
                None if good.iter().any(|token| token.word == word) => {}
                None => {
                    let number = inner.count.fetch_add(1, Ordering::Relaxed) + 1;
                    let credential = Arc::new(Credential {
                        principal: Principal::Token(number),
                        label: digest(&word, view.as_deref()),
                        view,
                        withdrawn: AtomicBool::new(false),
                        bell: Notify::new(),
                    });
                    good.push(Token { word, credential });
                }
            }
        }
        drop(good);
        for token in &old {
            token.credential.withdraw();
        }
        if !old.is_empty() {
            inner.withdrawn.notify_one();
        }
    }

    /// Proof that this is one of them, if it is. Takes the same time whichever it is, and however much of it is
    /// right.
    pub(crate) fn admit(&self, shown: &str) -> Option<Arc<Credential>> {
        let good = self.good();
        good.iter().fold(None, |found, token| {
            match same(shown.as_bytes(), token.word.as_bytes()) {
                true => Some(token.credential.clone()),
                false => found,
            }
        })
    }

    /// Proof for whom another process has found to have shown the token of this label.
    pub(crate) fn of_label(&self, label: &str) -> Option<Arc<Credential>> {
        let good = self.good();
        let token = good.iter().find(|token| *token.credential.label == *label);
        token.map(|token| token.credential.clone())
    }

    /// Whether this principal's token is good.
    pub(crate) fn knows(&self, principal: Principal) -> bool {
        self.place(principal).is_some()
    }

    /// Where this principal's token stands among the good ones, counted from 1.
    pub(crate) fn place(&self, principal: Principal) -> Option<usize> {
        let good = self.good();
        let at = good
            .iter()
            .position(|token| token.credential.principal == principal);
        at.map(|at| at + 1)
    }

    /// The views that tokens are good for.
    pub(crate) fn views(&self) -> Vec<Box<str>> {
        let good = self.good();
        let views = good.iter().filter_map(|it| it.credential.view.clone());
        views.collect()
    }

    /// Waits until one has been withdrawn. One waits at a time.
    pub(crate) async fn withdrawn(&self) {
        self.inner.withdrawn.notified().await;
    }
}

/// What a token is called where it must not be read: nobody finds the token to it.
fn digest(word: &str, view: Option<&str>) -> Box<str> {
    let mut digest = ring::digest::Context::new(&ring::digest::SHA256);
    for part in ["outlive token", word, view.unwrap_or_default()] {
        digest.update(part.as_bytes());
        digest.update(&[0]);
    }
    let digest = digest.finish();
    let hex: String = digest
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("{TOKEN_LABEL}{hex}").into()
}

/// A line of a file of tokens.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    word: String,
    /// The view that it is good for, if not for everything.
    view: Option<Box<str>>,
}

impl Line {
    fn of_everything(word: String) -> Line {
        Line { word, view: None }
    }

    fn read(line: &str) -> Line {
        match line.rsplit_once(char::is_whitespace) {
            Some((word, last)) if last.starts_with("view=") => Line {
                word: word.trim_end().to_owned(),
                view: Some(last["view=".len()..].into()),
            },
            _ => Line::of_everything(line.to_owned()),
        }
    }
}

/// The tokens in a file, or the number of the line with one that no client could ever show.
fn lines(text: &str) -> Result<Vec<Line>, usize> {
    // Some editors begin a file with a byte order mark, which is no part of the first token.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = Vec::new();
    for (n, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let line = Line::read(line);
        if !can_be_shown(&line.word) || line.word.is_empty() {
            return Err(n + 1);
        }
        lines.push(line);
    }
    Ok(lines)
}

/// Whether a header can carry this as it is.
fn can_be_shown(token: &str) -> bool {
    token.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

/// What they are is nobody's business.
impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").finish_non_exhaustive()
    }
}

/// Compares in a time that tells nothing about where the difference is.
fn same(shown: &[u8], token: &[u8]) -> bool {
    shown.ct_eq(token).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_good(tokens: &Tokens, shown: &str) -> bool {
        tokens.admit(shown).is_some()
    }

    fn everything(words: &[&str]) -> Vec<Line> {
        let line = |word: &&str| Line::of_everything((*word).to_owned());
        words.iter().map(line).collect()
    }

    #[test]
    fn a_token_may_be_good_for_a_view_only() {
        let tokens = Tokens::word("one".into());
        let before = tokens.admit("one").expect("good");
        assert_eq!(before.view(), None);
        tokens.replace(lines("one view=dev\ntwo words\nthree\tview=x").expect("read"));
        assert!(!before.is_good(), "with a view it is another token");
        let one = tokens.admit("one").expect("good");
        assert_eq!(one.view(), Some("dev"));
        assert!(!is_good(&tokens, "one view=dev"));
        assert_eq!(tokens.admit("two words").expect("good").view(), None);
        assert_eq!(tokens.admit("three").expect("good").view(), Some("x"));
        let views: Vec<Box<str>> = vec!["dev".into(), "x".into()];
        assert_eq!(tokens.views(), views);
        assert_eq!(lines(" view=dev"), Ok(everything(&["view=dev"])));
    }

    #[test]
    fn a_token_is_compared_as_a_whole() {
        let tokens = Tokens::word("secret".into());
        assert!(is_good(&tokens, "secret"));
        for wrong in ["", "secre", "secret2", "Secret", "secres"] {
            assert!(!is_good(&tokens, wrong), "{wrong}");
        }
        assert!(!format!("{tokens:?}").contains("secret"));
    }

    #[test]
    fn a_file_is_read_again_and_a_bad_one_changes_nothing() {
        let path = std::env::temp_dir().join(format!("outlive-tokens-{}", std::process::id()));
        let tokens = Tokens::file(path.clone());
        assert!(tokens.read().is_err_and(|why| why.contains("cannot read")));
        assert!(!is_good(&tokens, ""), "no token is not an empty one");
        fs::write(&path, "# ours\n one \n\ntwo\n").expect("written");
        tokens.read().expect("read");
        assert!(is_good(&tokens, "one") && is_good(&tokens, "two"));
        assert!(!is_good(&tokens, "# ours") && !is_good(&tokens, ""));
        fs::write(&path, "# none\n").expect("written");
        assert!(tokens.read().is_err_and(|why| why.contains("no token")));
        assert!(is_good(&tokens, "one"));
        fs::write(&path, "three\nf\u{fc}nf\n").expect("written");
        assert!(tokens.read().is_err_and(|why| why.contains("line 2")));
        assert!(is_good(&tokens, "one"));
        fs::write(&path, "three").expect("written");
        tokens.read().expect("read");
        assert!(is_good(&tokens, "three") && !is_good(&tokens, "one"));
        fs::remove_file(&path).expect("removed");
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_a_token() {
        let read = lines("\u{feff}one\r\ntwo").expect("read");
        assert_eq!(read, everything(&["one", "two"]));
        assert_eq!(lines("one\n\u{feff}two"), Err(2));
    }

    #[test]
    fn a_token_is_the_same_wherever_it_stands() {
        let tokens = Tokens::word("one".into());
        let one = tokens.admit("one").expect("good");
        tokens.replace(everything(&["two", "one", "one"]));
        let again = tokens.admit("one").expect("good");
        assert_eq!(one.principal(), again.principal());
        assert_eq!(tokens.place(one.principal()), Some(2));
        let two = tokens.admit("two").expect("good");
        assert_ne!(one.principal(), two.principal());
        tokens.replace(everything(&["two"]));
        assert!(!one.is_good() && two.is_good() && !tokens.knows(one.principal()));
        // One that comes back is another.
        tokens.replace(everything(&["one"]));
        let later = tokens.admit("one").expect("good");
        assert_ne!(one.principal(), later.principal());
    }

    #[test]
    fn an_identity_says_who_it_is_and_no_secret() {
        let anyone = Identity::default();
        assert_eq!(anyone.principal(), Principal::Anyone);
        assert!(anyone.is_good() && anyone.withdrawal().is_none());
        let tokens = Tokens::word("hunter22".into());
        let known = Identity::from(tokens.admit("hunter22").expect("good"));
        assert_eq!(known.principal().to_string(), "token-1");
        assert!(!format!("{known:?}").contains("hunter22"));
        tokens.replace(everything(&["other"]));
        assert!(!known.is_good() && known.withdrawal().is_some());
    }
}
