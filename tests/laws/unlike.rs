//! Replicas that are not alike behind one router: whose answer comes when, and what a router remembers of a refusal.

use plimsoll::cluster::ClusterSpec;
use plimsoll::cluster::router::{KvEvents, Policy};
use plimsoll::cost::linear::LinearCost;
use plimsoll::engine::EngineConfig;
use plimsoll::ids::ReplicaId;
use plimsoll::sim::{Fact, Frontend, Observer, Outcome, Pause, Server, Simulation, Until};
use plimsoll::units::Picos;
use plimsoll::workload::{Arrivals, Generator};

use crate::common::{ample_engine, plain};

/// When requests were sent and answered, and by whom.
#[derive(Default)]
struct Post {
    sent: Vec<Picos>,
    answered: Vec<Picos>,
    completed: [u64; 2],
}

impl Observer for Post {
    fn observe(&mut self, fact: &Fact<'_>) {
        match fact {
            Fact::Arrived { request } => self.sent.push(request.arrival),
            Fact::Ended(completion) => {
                self.answered.push(completion.end);
                let is_second = completion.replica == ReplicaId(1);
                self.completed[usize::from(is_second)] += u64::from(completion.outcome == Outcome::Completed);
            }
            _ => {}
        }
    }
}

fn server(engine: EngineConfig, response_ms: u64) -> Server {
    Server {
        engine: engine.into(),
        cost: Box::new(LinearCost::new(0.006, 2e-5, 0.0)),
        frontend: Frontend {
            response_delay: Picos(response_ms * 1_000_000_000),
            ..Frontend::default()
        },
    }
}

/// A client in a loop sends when it has an answer: its k-th request after the first round goes out with the k-th answer,
/// though answers of a slow front end are overtaken by those of a fast one.
#[test]
fn answers_come_in_order_of_delivery() {
    let mut spec = plain(Arrivals::AllAtOnce, 100, 20, 2_000);
    spec.client.max_concurrency = Some(8);
    let servers = vec![server(ample_engine(), 900), server(ample_engine(), 0)];
    let cluster = ClusterSpec::of(2, Policy::LeastRequests);
    let mut simulation = Simulation::of_servers(servers, &cluster, 0, Generator::new(&spec, 0));
    let mut post = Post::default();
    assert_eq!(simulation.advance(Until::DRAINED, &mut post), Pause::Drained);
    assert!(post.answered.is_sorted());
    assert_eq!(post.sent[8..], post.answered[..post.sent.len() - 8]);
    let [slow, fast] = post.completed;
    assert!(
        fast > 2 * slow,
        "{slow} and {fast}: who answers at once gets more"
    );
}

/// A replica that refused some is not taken for one that is busy with them.
#[test]
fn a_refused_request_burdens_nobody() {
    let shut_at = |most| EngineConfig {
        max_num_queued_reqs: Some(most),
        max_num_seqs: 1,
        ..ample_engine()
    };
    let mut spec = plain(Arrivals::AllAtOnce, 100, 20, 400);
    spec.arrivals = Arrivals::Poisson { request_rate: 12.0 };
    let completed = |policy| {
        let servers = vec![server(shut_at(1), 0), server(shut_at(1000), 0)];
        let cluster = ClusterSpec::of(2, policy);
        let mut simulation = Simulation::of_servers(servers, &cluster, 0, Generator::new(&spec, 0));
        let mut post = Post::default();
        assert_eq!(simulation.advance(Until::DRAINED, &mut post), Pause::Drained);
        assert_eq!(post.answered.len(), 400);
        post.completed
    };
    let [first, second] = completed(Policy::KvEvents(KvEvents::default()));
    assert!(first + second < 400, "some were refused");
    assert!(
        first > 150,
        "{first} and {second}: the first goes on serving its half"
    );
}
