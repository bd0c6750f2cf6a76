//! Proxies: what is for this machine goes through none, however the machine is written.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use crate::support::dev::program;

/// A server that refuses everything, and what it was told.
struct Refusing {
    port: u16,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Refusing {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let hears = heard.clone();
        // It ends with the test.
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut buffer = vec![0; 64 * 1024];
                let read = stream.read(&mut buffer).unwrap_or(0);
                hears.lock().unwrap().push(String::from_utf8_lossy(&buffer[..read]).into_owned());
                let _ = stream.write_all(
                    b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
                );
            }
        });
        Self { port, heard }
    }

    fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }
}

#[test]
fn no_secret_for_this_machine_goes_through_a_proxy() {
    let folder = tempfile::tempdir().unwrap();
    for host in ["LOCALHOST", "127.0.0.1"] {
        let (proxy, model, tools) = (Refusing::start(), Refusing::start(), Refusing::start());
        let config = folder.path().join("tools.toml");
        let server = format!("http://{host}:{}/mcp", tools.port);
        std::fs::write(&config, format!("[servers.t]\nurl = \"{server}\"\nbearer_env = \"MCP_SECRET\"\n"))
            .unwrap();
        let proxied = format!("http://127.0.0.1:{}", proxy.port);
        let model_url = format!("http://{host}:{}/v1", model.port);
        let run = |asked: &[&str]| {
            let output = program("")
                .args(["run", "What is it?", "--local", "--data-dir"])
                .arg(folder.path().join(format!("data-{}-{}", host.len(), asked.len())))
                .args(asked)
                .arg("--tools-config")
                .arg(&config)
                .envs([("HTTP_PROXY", &proxied), ("http_proxy", &proxied), ("ALL_PROXY", &proxied)])
                .envs([("OPENAI_API_KEY", "sk-SECRET"), ("MCP_SECRET", "mcp-SECRET")])
                .env_remove("NO_PROXY")
                .env_remove("no_proxy")
                .output()
                .unwrap();
            String::from_utf8_lossy(&output.stderr).into_owned()
        };
        // The first is refused before it starts. The second waits for its tools.
        let of_model = ["--model", "openai:m", "--models", "openai:*", "--model-base-url", &model_url];
        let errors = run(&of_model) + &run(&["--model", "offline"]);
        assert_eq!(proxy.heard(), [""; 0], "{host}: {errors}");
        assert!(model.heard().iter().any(|request| request.contains("sk-SECRET")), "{host}: {errors}");
        assert!(tools.heard().iter().any(|request| request.contains("mcp-SECRET")), "{host}: {errors}");
    }
}
