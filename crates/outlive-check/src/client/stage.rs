//! What scenarios for clients are played with.

use std::sync::Arc;

use crate::cast::Cast;
use crate::puppet::{Habits, Puppet, Puppets};
use crate::scenario::Over;
use crate::site::Site;
use crate::stage::Stage;
use crate::verdict::Finding;

use super::driver::{Driver, Errand};
use super::subject::{self, ClientUnderTest, Place};

impl Stage {
    /// The client under test.
    pub fn client(&self) -> Arc<ClientUnderTest> {
        match self.cast() {
            Cast::Client(client) => client.clone(),
            other => unreachable!(
                "a scenario for clients was played with a {}",
                other.subject().word()
            ),
        }
    }

    /// A driver and what its client will start, which is nothing yet. `habits` is given the number of the
    /// start, from 1; the era they speak is the stage's.
    pub(super) async fn driver(
        &mut self,
        habits: impl Fn(usize) -> Habits + Send + 'static,
    ) -> Result<(Driver, Puppets), Finding> {
        let client = self.client();
        if client.options.over != Over::Stdio {
            return Finding::not_applicable("the client is driven over HTTP; see --over");
        }
        let era = self.era();
        let habits = move |nth| Habits {
            era: Some(era),
            ..habits(nth)
        };
        let options = &client.options;
        let puppets =
            Puppets::open(&options.puppet, &self.journal, options.timeout, habits).await?;
        let place = Place::Command(puppets.command());
        let mut driver = subject::start(options, &place, &self.journal)?;
        driver.hello(options.start_patience).await?;
        Ok((driver, puppets))
    }

    /// A client that is connected to a good server.
    pub(super) async fn connected(&mut self) -> Result<(Driver, Puppet, Puppets), Finding> {
        self.connected_to(|_| Habits::default()).await
    }

    /// A client that is connected to a server with these habits.
    pub(super) async fn connected_to(
        &mut self,
        habits: impl Fn(usize) -> Habits + Send + 'static,
    ) -> Result<(Driver, Puppet, Puppets), Finding> {
        let (mut driver, mut puppets) = self.driver(habits).await?;
        let errand = driver
            .tell("connect", subject::to_command(&puppets.command()))
            .await;
        let puppet = puppets.next().await?;
        driver.succeeds(errand, "connect").await?;
        let kept = puppets.kept(puppet).await?;
        Ok((driver, kept, puppets))
    }

    /// A driver and the server over HTTP that its client will reach, which speaks the stage's era.
    pub(super) async fn visitor(&mut self) -> Result<(Driver, Site), Finding> {
        let client = self.client();
        if client.options.over != Over::Http {
            return Finding::not_applicable("the client is driven over stdio; see --over");
        }
        let options = &client.options;
        let site = Site::open(&self.journal, self.era(), options.timeout).await?;
        let place = Place::Url(site.url());
        let mut driver = subject::start(options, &place, &self.journal)?;
        driver.hello(options.start_patience).await?;
        Ok((driver, site))
    }

    /// Has a driver's client connect to a server over HTTP.
    pub(super) async fn connect(driver: &mut Driver, site: &Site) -> Errand {
        let place = Place::Url(site.url());
        driver.tell("connect", place.details()).await
    }

    /// A client that is connected to a good server over HTTP.
    pub(super) async fn visiting(&mut self) -> Result<(Driver, Site), Finding> {
        let (mut driver, site) = self.visitor().await?;
        let connect = Stage::connect(&mut driver, &site).await;
        driver.succeeds(connect, "connect").await?;
        Ok((driver, site))
    }
}
