//! The whole of it: a thread that simulates, a runtime that talks to clients, and the desk between them.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

use super::asked::Rows;
use super::desk::{Desk, House, Message};
use super::http;
use super::pacer::{Pacer, Tally};
use crate::metrics::{PartSummary, SloLimits};
use crate::sim::Scenario;
use crate::workload::Endings;

/// How long clients may take to read what they were told once the server closes.
const GRACE: Duration = Duration::from_secs(4);

/// How it serves.
pub struct Terms {
    /// How many times as fast as the wall's its clock is; positive and finite.
    pub speed: f64,
    /// How answers end that clients let end by themselves; without it they are as long as they may be.
    pub endings: Option<Endings>,
    /// What makes a request good whose class has no limits of its own.
    pub limits: SloLimits,
    /// Where what was asked goes, as rows of a trace.
    pub trace: Option<Box<dyn Write + Send>>,
}

/// What there is to say once a simulation has ended.
#[derive(Debug)]
pub struct Ends {
    /// What became of each class; empty where there are none.
    pub by_class: Vec<PartSummary>,
    /// What was written of what was asked, if anybody wanted that.
    pub trace: Option<Rows>,
}

/// What a server has done that is closed.
#[derive(Debug)]
pub struct Done {
    /// All together.
    pub tally: Tally,
    /// What became of classes, and of the trace.
    pub ends: Ends,
}

/// A server that runs.
pub struct Server {
    runtime: Runtime,
    address: SocketAddr,
    stop: watch::Sender<bool>,
    answering: tokio::task::JoinHandle<io::Result<()>>,
    posts: Sender<Message>,
    simulating: JoinHandle<Ends>,
    tally: Arc<Mutex<Tally>>,
}

impl Server {
    /// Serves on a socket from now on, with the scenario's servers.
    ///
    /// # Errors
    /// If the system has no threads, or no use of the socket.
    ///
    /// # Panics
    /// If the speed is not positive and finite.
    pub fn start(socket: TcpListener, scenario: &Scenario, house: House, terms: Terms) -> io::Result<Server> {
        let address = socket.local_addr()?;
        socket.set_nonblocking(true)?;
        let (desk, received) = Desk::open(house);
        let runtime = Builder::new_multi_thread().enable_all().build()?;
        let listener = {
            let _guard = runtime.enter();
            tokio::net::TcpListener::from_std(socket)?
        };
        let posts = desk.posts();
        let (stop, stopped) = watch::channel(false);
        let tally = Arc::<Mutex<Tally>>::default();
        let simulate = {
            let (scenario, house, told) = (scenario.clone(), desk.house().clone(), Arc::clone(&tally));
            // A simulation stays on the thread that it began on.
            move || Pacer::new(&scenario, house, terms, told).run(&received)
        };
        let simulating = std::thread::Builder::new()
            .name("simulation".to_owned())
            .spawn(simulate)?;
        let answering = runtime.spawn(http::serve(listener, desk, stopped));
        Ok(Server {
            runtime,
            address,
            stop,
            answering,
            posts,
            simulating,
            tally,
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it has done until now.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Lets it go on for a while.
    pub fn wait(&self, time: Duration) {
        std::thread::sleep(time);
    }

    /// Whether it has ended by itself.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.simulating.is_finished() || self.answering.is_finished()
    }

    /// Lets nobody in any more, tells whoever is inside that it closes, and waits some seconds for them to hear it. What it has done.
    ///
    /// # Errors
    /// What the socket came to grief with, if it did.
    ///
    /// # Panics
    /// As the simulation did, if it did.
    pub fn close(self) -> io::Result<Done> {
        let _ = self.stop.send(true);
        let _ = self.posts.send(Message::Close);
        let ends = self.simulating.join();
        let ends = ends.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let ended = self
            .runtime
            .block_on(async { tokio::time::timeout(GRACE, self.answering).await });
        self.runtime.shutdown_background();
        match ended {
            Ok(Ok(Err(error))) => Err(error),
            _ => Ok(Done { tally, ends }),
        }
    }
}
