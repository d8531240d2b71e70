//! The connection to a Redis: made when it is needed, and made anew when it has failed.
//!
//! Everything that is asked of it may be asked again (see [`super`]), so a question whose connection was lost is put
//! once more. Whatever else fails is told to whoever asked, who knows what to do about it.

use std::time::{Duration, Instant};

use ::redis::aio::{ConnectionLike, MultiplexedConnection};
use ::redis::cluster::ClusterClient;
use ::redis::cluster_async::ClusterConnection;
use ::redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use ::redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind, FromRedisValue, Pipeline, RedisError,
    RedisFuture, RedisResult, ScriptInvocation, ServerErrorKind, TlsMode, Value,
};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::StoreError;
use super::address::{Address, Kind};

/// How long nobody tries to connect after somebody has failed to: many may be waiting.
const REST: Duration = Duration::from_millis(50);

/// A question to the store.
pub(super) enum Ask<'a> {
    Command(Cmd),
    Script(ScriptInvocation<'a>),
}

impl Ask<'_> {
    async fn put<T: FromRedisValue>(&self, to: &mut Connection) -> RedisResult<T> {
        match self {
            Ask::Command(command) => command.query_async(to).await,
            Ask::Script(script) => script.invoke_async(to).await,
        }
    }
}

/// A connection. Clones share it.
#[derive(Clone)]
enum Connection {
    One(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl ConnectionLike for Connection {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        match self {
            Connection::One(one) => one.req_packed_command(cmd),
            Connection::Cluster(cluster) => cluster.req_packed_command(cmd),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        cmd: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match self {
            Connection::One(one) => one.req_packed_commands(cmd, offset, count),
            Connection::Cluster(cluster) => cluster.req_packed_commands(cmd, offset, count),
        }
    }

    fn get_db(&self) -> i64 {
        match self {
            Connection::One(one) => one.get_db(),
            Connection::Cluster(cluster) => cluster.get_db(),
        }
    }
}

pub(super) struct Connector {
    pub(super) address: Address,
    /// How long the store may take, to connect and to answer.
    pub(super) patience: Duration,
    inside: Mutex<Inside>,
}

#[derive(Default)]
struct Inside {
    /// The connection, and the how manieth it is.
    current: Option<(u64, Connection)>,
    made: u64,
    /// When the last attempt has failed, and why.
    failed: Option<(Instant, StoreError)>,
    /// The sentinels want the password, too.
    tell_sentinels: bool,
}

impl Connector {
    pub(super) fn new(address: Address, patience: Duration) -> Connector {
        Connector {
            address,
            patience,
            inside: Mutex::default(),
        }
    }

    /// What the store answers to a question.
    pub(super) async fn ask<T: FromRedisValue>(&self, ask: Ask<'_>) -> Result<T, StoreError> {
        let mut again = true;
        loop {
            let (number, mut connection) = self.connection().await?;
            let error = match ask.put(&mut connection).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            if is_over(&error) {
                self.forget(number).await;
                if error.is_connection_dropped() && std::mem::take(&mut again) {
                    continue;
                }
            }
            return Err(self.sentence(&error));
        }
    }

    /// The connection, which is made if there is none. One makes it, others wait for that.
    async fn connection(&self) -> Result<(u64, Connection), StoreError> {
        let mut inside = self.inside.lock().await;
        if let Some(current) = &inside.current {
            return Ok(current.clone());
        }
        if let Some((at, why)) = &inside.failed
            && at.elapsed() < REST
        {
            return Err(why.clone());
        }
        let made = match timeout(self.patience, self.connect(&mut inside)).await {
            Ok(made) => made.map_err(|error| self.sentence(&error)),
            Err(_) => Err(self.late()),
        };
        match made {
            Ok(connection) => {
                inside.made += 1;
                inside.failed = None;
                let current = (inside.made, connection);
                Ok(inside.current.insert(current).clone())
            }
            Err(why) => {
                inside.failed = Some((Instant::now(), why.clone()));
                Err(why)
            }
        }
    }

    async fn forget(&self, number: u64) {
        let mut inside = self.inside.lock().await;
        inside.current.take_if(|(current, _)| *current == number);
    }

    async fn connect(&self, inside: &mut Inside) -> RedisResult<Connection> {
        if self.address.tls {
            provide_cryptography();
        }
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.patience))
            .set_response_timeout(Some(self.patience));
        match &self.address.kind {
            Kind::Alone => {
                let mut nodes = self.address.connections()?;
                let client = Client::open(nodes.remove(0))?;
                let one = client.get_multiplexed_async_connection_with_config(&config);
                Ok(Connection::One(one.await?))
            }
            Kind::Sentinel(master) => {
                // New ones each time: the last ones may hold connections to a sentinel that is gone.
                let mut sentinels = self.sentinels(master, inside.tell_sentinels)?;
                let found = match sentinels.async_get_client().await {
                    Err(error) if wants_password(&error) && !inside.tell_sentinels => {
                        inside.tell_sentinels = true;
                        let mut sentinels = self.sentinels(master, true)?;
                        sentinels.async_get_client().await
                    }
                    found => found,
                };
                let client = found?;
                let one = client.get_multiplexed_async_connection_with_config(&config);
                Ok(Connection::One(one.await?))
            }
            Kind::Cluster => {
                let client = ClusterClient::builder(self.address.connections()?)
                    .connection_timeout(self.patience)
                    .response_timeout(self.patience)
                    .retries(3)
                    .build()?;
                Ok(Connection::Cluster(client.get_async_connection().await?))
            }
        }
    }

    fn sentinels(&self, master: &str, with_password: bool) -> RedisResult<SentinelClient> {
        let address = &self.address;
        let nodes = address.addresses();
        let mut sentinels = SentinelClientBuilder::new(nodes, master, SentinelServerType::Master)?
            .set_client_to_redis_db(address.database);
        if address.tls {
            sentinels = sentinels.set_client_to_redis_tls_mode(TlsMode::Secure);
        }
        if let Some(username) = &address.username {
            sentinels = sentinels.set_client_to_redis_username(username);
        }
        if let Some(password) = &address.password {
            sentinels = sentinels.set_client_to_redis_password(password);
            if with_password {
                sentinels = sentinels.set_client_to_sentinel_password(password);
            }
        }
        sentinels.build()
    }

    fn late(&self) -> StoreError {
        StoreError::new(format!("{} does not answer", self.address))
    }

    /// Why it has failed, for whoever runs the listener.
    fn sentence(&self, error: &RedisError) -> StoreError {
        if error.is_timeout() {
            return self.late();
        }
        let why = match error.kind() {
            ErrorKind::Server(ServerErrorKind::BusyLoading) => {
                "it is still reading its data".into()
            }
            ErrorKind::Server(ServerErrorKind::ReadOnly) => {
                "it is a replica now, and takes no writes".into()
            }
            ErrorKind::AuthenticationFailed => "it has refused the user or the password".to_owned(),
            _ if wants_password(error) => "it wants a password".into(),
            _ => error.to_string(),
        };
        StoreError::new(self.address.mask(format!("{}: {why}", self.address)))
    }
}

/// Whether nothing more is to be expected of the connection. A server that has become a replica answers well, but not
/// with what is wanted; whoever connects anew finds the other one.
fn is_over(error: &RedisError) -> bool {
    match error.kind() {
        ErrorKind::Server(ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown) => true,
        ErrorKind::Server(_) | ErrorKind::Extension | ErrorKind::UnexpectedReturnType => {
            wants_password(error)
        }
        _ => true,
    }
}

fn wants_password(error: &RedisError) -> bool {
    error.code() == Some("NOAUTH")
}

/// The library takes the cryptography of the process, and panics if there is none.
fn provide_cryptography() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Somebody else may have been faster.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}
