//! The role services of `dev` are for its own process: nobody else on the machine can make them work.

use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use procfs::net::TcpState;
use procfs::process::{FDTarget, Process};
use serde_json::Value;
use tonic::{Code, Status};
use tree_agent_proto::internal::v1 as pb;
use tree_agent_proto::internal::v1::executor_service_client::ExecutorServiceClient;
use tree_agent_proto::internal::v1::model_service_client::ModelServiceClient;
use tree_agent_proto::internal::v1::planner_service_client::PlannerServiceClient;
use tree_agent_runtime::channel::{Peers, single};

/// Killed when the test is over, however it ends.
struct Dev(Child);

impl Drop for Dev {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Where the process listens.
fn listening(pid: u32) -> Vec<SocketAddr> {
    let process = Process::new(pid.try_into().unwrap()).unwrap();
    let sockets: HashSet<u64> = process
        .fd()
        .unwrap()
        .filter_map(|fd| match fd.ok()?.target {
            FDTarget::Socket(inode) => Some(inode),
            _ => None,
        })
        .collect();
    let connections = process.tcp().unwrap().into_iter().chain(process.tcp6().unwrap_or_default());
    let ours = connections.filter(|c| c.state == TcpState::Listen && sockets.contains(&c.inode));
    ours.map(|connection| connection.local_address).collect()
}

async fn answers(peers: Peers) -> [Result<(), Status>; 3] {
    let question = pb::CheckModelRequest { model: "offline".to_owned() };
    [
        ExecutorServiceClient::new(peers.clone()).execute(pb::ExecuteRequest::default()).await.map(drop),
        PlannerServiceClient::new(peers.clone()).plan(pb::PlanRequest::default()).await.map(drop),
        ModelServiceClient::new(peers).check_model(question).await.map(drop),
    ]
}

#[tokio::test]
async fn every_port_of_dev_but_its_gateway_asks_for_a_secret() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tree-agent"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TREE_AGENT_") {
            command.env_remove(name);
        }
    }
    let child = command
        .args(["dev", "--listen", "127.0.0.1:0", "-o", "jsonl", "--log", "warn", "--data-dir"])
        .arg(folder.path())
        .stdout(Stdio::piped())
        .spawn();
    let mut dev = Dev(child.expect("the program starts"));
    let mut first = String::new();
    BufReader::new(dev.0.stdout.take().unwrap()).read_line(&mut first).unwrap();
    let ready: Value = serde_json::from_str(&first).unwrap_or_else(|e| panic!("{first:?}: {e}"));
    let gateway = ready["server"].as_str().unwrap();
    let ports = listening(dev.0.id());
    assert_eq!(ports.len(), 4, "{ports:?}");
    for port in ports {
        assert!(port.ip().is_loopback(), "{port}");
        let url = format!("http://{port}");
        let wanted = if url == gateway { Code::Unimplemented } else { Code::Unauthenticated };
        for answer in answers(single(url.parse().unwrap())).await {
            let status = answer.expect_err("nothing is answered");
            assert_eq!(status.code(), wanted, "{url}: {status}");
        }
    }
}
