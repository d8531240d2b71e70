//! Sessions in Redis, or Valkey, for several processes at once.
//!
//! # Theory
//!
//! A session is one hash, `outlive:{ID}`, so that it lies on one node of a cluster, is changed by one script at a time,
//! and runs out as a whole. Each owner has one key of its own, `outlive:lease:OWNER`, which runs out with its lease.
//! There is nothing else, and nothing without an expiry.
//!
//! | field | what is in it |
//! |---|---|
//! | `t` | version of the format, owner (`-` if it was released), fence |
//! | `p` | the principal |
//! | `n` | the number of the owner's last write |
//! | others | the [`Part`]s, by name |
//!
//! The rules are those of [`tenure`](outlive_core::tenure). `begin`, `write`, `touch`, `release` and `end` are a script
//! each: it compares `t` with what the caller has, and does nothing if they differ. So they also do nothing to a
//! version that is not known.
//!
//! **A claim takes two nodes of a cluster, so it cannot be one script.** It is: read `t` and `p`; if there is another
//! owner, look for its lease; decide by [`Tenancy::claim`]; then change `t` from what was read to what was decided, if
//! it is still that. It is safe because neither half of what it decides on can become false in between without notice:
//!
//! - A lease that is not there does not come back. Renewing changes a lease that exists (`SET XX`); only an owner that
//!   begins makes one, and no owner begins twice. (One that has not heard the answer does ask again. It has no session
//!   yet. Should the first question arrive after a long time, the lease is there once more without anybody who counts
//!   on it: claims wait for it to run out.)
//! - `t` has the fence, which only grows, so nobody can change it and change it back. Of several claimants that found
//!   the same, one changes it, and the others begin anew and find that one.
//! - A session that is released is claimed by the same comparison.
//!
//! **Everything may be asked twice**, since an answer can be lost with its connection. A write has its number. A claim
//! whose answer was lost finds its own name, and claims once more with a higher fence. A `begin` finds what it has
//! written, and changes nothing, also if it arrives so late that there have been writes since. The rest has the same
//! effect twice.
//!
//! **What Redis does not promise.** It copies to its replicas after it has answered: a failover may forget the last
//! writes, claims and leases ([what follows](outlive_core::tenure)). Settings that keep that window small, and that
//! keep Redis from throwing sessions away when it is full, are in `docs/replicas.md`. Its leases follow the clock of its
//! machine: if that is set forward by more than the margin of a lease, a session may have two owners until the first
//! one renews.

mod address;
mod connector;

use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use ::redis::{Script, ScriptInvocation, cmd};
use bytes::Bytes;
use outlive_core::tenure::{Claim, Fence, Tenancy};
use tokio::task::JoinSet;

use self::address::Address;
use self::connector::{Ask, Connector};
use super::{Answer, Claimed, NewSession, Owner, Part, Store, StoreError, Tenure, Write};

/// The version of what is written.
const VERSION: &str = "1";
/// The usual length of a lease.
const LEASE: Duration = Duration::from_secs(15);
/// Redis refuses an expiry that is too far away.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
/// Sessions that are touched at once.
const MOST_AT_ONCE: usize = 64;
/// How often a claim begins anew because others have claimed meanwhile.
const MOST_CLAIMS: usize = 16;

static BEGIN: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local found = redis.call('HGET', KEYS[1], 't')
        if found then return found == ARGV[1] and 1 or 0 end
        redis.call('HSET', KEYS[1], 't', ARGV[1], 'p', ARGV[2], 'n', '0')
        for i = 4, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
        redis.call('PEXPIRE', KEYS[1], ARGV[3])
        return 1",
    )
});
static CLAIM: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('HGET', KEYS[1], 't') ~= ARGV[1] then return {} end
        redis.call('HSET', KEYS[1], 't', ARGV[2], 'n', '0')
        return redis.call('HGETALL', KEYS[1])",
    )
});
/// A part is written as `+NAME` and its bytes, and taken away as `-NAME` and nothing.
static WRITE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('HGET', KEYS[1], 't') ~= ARGV[1] then return 0 end
        if tonumber(ARGV[2]) <= tonumber(redis.call('HGET', KEYS[1], 'n')) then return 1 end
        redis.call('HSET', KEYS[1], 'n', ARGV[2])
        for i = 3, #ARGV, 2 do
          local name = string.sub(ARGV[i], 2)
          if string.sub(ARGV[i], 1, 1) == '+' then
            redis.call('HSET', KEYS[1], name, ARGV[i + 1])
          else
            redis.call('HDEL', KEYS[1], name)
          end
        end
        return 1",
    )
});
static TOUCH: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('HGET', KEYS[1], 't') ~= ARGV[1] then return 0 end
        return redis.call('PEXPIRE', KEYS[1], ARGV[2])",
    )
});
static RELEASE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('HGET', KEYS[1], 't') ~= ARGV[1] then return 0 end
        redis.call('HSET', KEYS[1], 't', ARGV[2])
        return 1",
    )
});
static END: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('HGET', KEYS[1], 't') ~= ARGV[1] then return 0 end
        return redis.call('UNLINK', KEYS[1])",
    )
});

/// Keeps sessions in Redis or Valkey (7.0 or newer): alone, with Sentinel, or a cluster.
///
/// ```no_run
/// # use outlive::store::{RedisStore, StoreError};
/// # fn main() -> Result<(), StoreError> {
/// let store = RedisStore::open("redis://10.0.0.9:6379")?;
/// let encrypted = RedisStore::open("rediss://redis.example.com:6379")?.with_password("…");
/// let sentinels = RedisStore::open("redis+sentinel://10.0.0.7:26379,10.0.0.8:26379/mymaster")?;
/// let cluster = RedisStore::open("redis+cluster://10.0.0.7:6379,10.0.0.8:6379")?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RedisStore {
    connector: Arc<Connector>,
    lease: Duration,
}

impl RedisStore {
    /// Sessions in the Redis at this address. It is connected to when it is needed, so this only fails if the address
    /// makes no sense. Neither this error nor any other tells the user and the password that are in it.
    pub fn open(url: &str) -> Result<RedisStore, StoreError> {
        Ok(RedisStore::new(Address::read(url)?, LEASE))
    }

    /// With leases of this length instead of 15 seconds. All processes that use one Redis must have the same.
    pub fn with_lease(self, length: Duration) -> RedisStore {
        RedisStore::new(self.connector.address.clone(), length)
    }

    /// With a password that is not in the address.
    pub fn with_password(self, password: impl Into<String>) -> RedisStore {
        let address = Address {
            password: Some(password.into()),
            ..self.connector.address.clone()
        };
        RedisStore::new(address, self.lease)
    }

    fn new(address: Address, lease: Duration) -> RedisStore {
        // A connection that has died without a word is noticed while there is time to try another one: an owner asks
        // every third of its lease. The usual half second of the library would take a busy Redis for a dead one.
        let patience = (lease / 5).clamp(Duration::from_millis(100), Duration::from_secs(2));
        RedisStore {
            connector: Arc::new(Connector::new(address, patience)),
            lease,
        }
    }

    async fn run<T: ::redis::FromRedisValue>(
        &self,
        script: &Script,
        id: &str,
        fill: impl FnOnce(&mut ScriptInvocation<'_>),
    ) -> Result<T, StoreError> {
        let mut invocation = script.prepare_invoke();
        invocation.key(session_key(id));
        fill(&mut invocation);
        self.connector.ask(Ask::Script(invocation)).await
    }

    /// Whose a session is, and its principal.
    async fn read(&self, id: &str) -> Result<Option<(Tenancy, String)>, StoreError> {
        let mut read = cmd("HMGET");
        read.arg(session_key(id)).arg("t").arg("p");
        let read: (Option<String>, Option<String>) = self.connector.ask(Ask::Command(read)).await?;
        match read {
            (Some(tenancy), Some(principal)) => Ok(Some((read_tenancy(&tenancy)?, principal))),
            (None, None) => Ok(None),
            (_, _) => Err(unknown_format()),
        }
    }

    /// Where an owner is reached, if it lives.
    async fn address_of(&self, owner: Owner) -> Result<Option<String>, StoreError> {
        let mut read = cmd("GET");
        read.arg(lease_key(owner));
        let lease: Option<String> = self.connector.ask(Ask::Command(read)).await?;
        // Whatever else is in it: it is there.
        Ok(lease.map(|lease| match lease.split_once(' ') {
            Some((VERSION, address)) => address.to_owned(),
            _ => String::new(),
        }))
    }

    async fn try_claim(
        &self,
        id: &str,
        principal: &str,
        by: Owner,
    ) -> Result<Option<Claimed>, StoreError> {
        let Some((before, kept_principal)) = self.read(id).await? else {
            return Ok(Some(Claimed::Absent));
        };
        if kept_principal != principal {
            return Ok(Some(Claimed::Absent));
        }
        let living = match before.owner {
            Some(owner) if owner != by => self.address_of(owner).await?,
            _ => None,
        };
        let mut after = before;
        let tenure = match after.claim(by, |_| living.is_some()) {
            Claim::Held(owner) => {
                let address = living.unwrap_or_default();
                return Ok(Some(Claimed::Held { owner, address }));
            }
            Claim::Granted(tenure) => tenure,
        };
        let fields: Vec<(Bytes, Bytes)> = self
            .run(&CLAIM, id, |script| {
                script.arg(write_tenancy(before)).arg(write_tenancy(after));
            })
            .await?;
        if fields.is_empty() {
            return Ok(None);
        }
        let parts = fields.into_iter().filter_map(|(name, bytes)| {
            // A name that is not known is of a later version: its head has that, too.
            let part = Part::read(std::str::from_utf8(&name).ok()?)?;
            Some((part, bytes))
        });
        Ok(Some(Claimed::Granted(tenure, parts.collect())))
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore")
            .field("address", &self.connector.address)
            .field("lease", &self.lease)
            .finish()
    }
}

fn session_key(id: &str) -> String {
    format!("outlive:{{{id}}}")
}

fn lease_key(owner: Owner) -> String {
    format!("outlive:lease:{owner}")
}

fn write_tenancy(tenancy: Tenancy) -> String {
    let fence = tenancy.fence.0;
    match tenancy.owner {
        Some(owner) => format!("{VERSION} {owner} {fence}"),
        None => format!("{VERSION} - {fence}"),
    }
}

fn write_tenure(tenure: Tenure) -> String {
    write_tenancy(Tenancy {
        owner: Some(tenure.owner),
        fence: tenure.fence,
        written: 0,
    })
}

/// What was written; how much the owner has written is not in it.
fn read_tenancy(text: &str) -> Result<Tenancy, StoreError> {
    let known = || {
        let mut words = text.split(' ');
        if words.next() != Some(VERSION) {
            return None;
        }
        let owner = match words.next()? {
            "-" => None,
            owner => Some(Owner(u64::from_str_radix(owner, 16).ok()?)),
        };
        let fence = Fence(words.next()?.parse().ok()?);
        words.next().is_none().then_some(Tenancy {
            owner,
            fence,
            written: 0,
        })
    };
    known().ok_or_else(unknown_format)
}

fn unknown_format() -> StoreError {
    StoreError::new(format!(
        "the session is kept in a format that this program does not know (it knows version {VERSION}); a newer program \
         may"
    ))
}

fn milliseconds(length: Duration) -> u64 {
    length.min(LONGEST).as_millis().max(1) as u64
}

impl Store for RedisStore {
    fn lease(&self) -> Option<Duration> {
        Some(self.lease)
    }

    fn renew<'a>(&'a self, owner: Owner, address: &'a str, begins: bool) -> Answer<'a, bool> {
        Box::pin(async move {
            let mut set = cmd("SET");
            set.arg(lease_key(owner))
                .arg(format!("{VERSION} {address}"));
            if !begins {
                set.arg("XX");
            }
            set.arg("PX").arg(milliseconds(self.lease));
            let done: Option<String> = self.connector.ask(Ask::Command(set)).await?;
            Ok(done.is_some())
        })
    }

    fn leave(&self, owner: Owner) -> Answer<'_, ()> {
        Box::pin(async move {
            let mut delete = cmd("DEL");
            delete.arg(lease_key(owner));
            self.connector.ask(Ask::Command(delete)).await
        })
    }

    fn begin(&self, session: NewSession) -> Answer<'_, Tenure> {
        Box::pin(async move {
            let (tenancy, tenure) = Tenancy::begun(session.owner);
            let begun: bool = self
                .run(&BEGIN, &session.id, |script| {
                    script.arg(write_tenancy(tenancy)).arg(&session.principal);
                    script.arg(milliseconds(session.ttl));
                    for (part, bytes) in &session.parts {
                        script.arg(part.to_string()).arg(&bytes[..]);
                    }
                })
                .await?;
            match begun {
                true => Ok(tenure),
                false => Err(StoreError::new("there is another session of this id")),
            }
        })
    }

    fn claim(&self, id: &str, principal: &str, by: Owner) -> Answer<'_, Claimed> {
        let (id, principal) = (id.to_owned(), principal.to_owned());
        Box::pin(async move {
            for _ in 0..MOST_CLAIMS {
                if let Some(claimed) = self.try_claim(&id, &principal, by).await? {
                    return Ok(claimed);
                }
            }
            Err(StoreError::new(
                "others claim the same session all the time",
            ))
        })
    }

    fn write(&self, id: &str, tenure: Tenure, number: u64, writes: Vec<Write>) -> Answer<'_, bool> {
        let id = id.to_owned();
        Box::pin(async move {
            self.run(&WRITE, &id, |script| {
                script.arg(write_tenure(tenure)).arg(number);
                for (part, bytes) in &writes {
                    match bytes {
                        Some(bytes) => script.arg(format!("+{part}")).arg(&bytes[..]),
                        None => script.arg(format!("-{part}")).arg(""),
                    };
                }
            })
            .await
        })
    }

    fn touch(&self, sessions: Vec<(String, Tenure)>, ttl: Duration) -> Answer<'_, ()> {
        Box::pin(async move {
            let (mut running, mut done) = (JoinSet::new(), Ok(()));
            for (id, tenure) in sessions {
                if running.len() >= MOST_AT_ONCE {
                    done = done.and(finished(running.join_next().await));
                }
                let store = self.clone();
                running.spawn(async move {
                    let touched = store.run(&TOUCH, &id, |script| {
                        script.arg(write_tenure(tenure)).arg(milliseconds(ttl));
                    });
                    touched.await.map(|_: bool| ())
                });
            }
            while !running.is_empty() {
                done = done.and(finished(running.join_next().await));
            }
            done
        })
    }

    fn release(&self, id: &str, tenure: Tenure) -> Answer<'_, ()> {
        let id = id.to_owned();
        Box::pin(async move {
            let released = Tenancy {
                owner: None,
                fence: tenure.fence,
                written: 0,
            };
            let done = self.run(&RELEASE, &id, |script| {
                script
                    .arg(write_tenure(tenure))
                    .arg(write_tenancy(released));
            });
            done.await.map(|_: bool| ())
        })
    }

    fn end(&self, id: &str, tenure: Tenure) -> Answer<'_, ()> {
        let id = id.to_owned();
        Box::pin(async move {
            let done = self.run(&END, &id, |script| {
                script.arg(write_tenure(tenure));
            });
            done.await.map(|_: bool| ())
        })
    }
}

/// What has become of a session that was touched.
fn finished(
    joined: Option<Result<Result<(), StoreError>, tokio::task::JoinError>>,
) -> Result<(), StoreError> {
    match joined {
        None => Ok(()),
        Some(Ok(done)) => done,
        Some(Err(_)) => Err(StoreError::new("a session could not be touched")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenancy_is_read_as_it_is_written_and_another_version_is_refused() {
        for owner in [None, Some(Owner(1)), Some(Owner(u64::MAX))] {
            let tenancy = Tenancy {
                owner,
                fence: Fence(7),
                written: 0,
            };
            assert_eq!(read_tenancy(&write_tenancy(tenancy)), Ok(tenancy));
        }
        for text in ["", "2 - 1", "1 -", "1 - 1 x", "1 zz 1", "1 - -1"] {
            assert_eq!(read_tenancy(text), Err(unknown_format()), "{text}");
        }
    }
}
