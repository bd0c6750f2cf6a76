use super::*;

fn parse(text: &str) -> Result<McpConfig, Vec<String>> {
    McpConfig::parse(text, |name| (name == "SECRET").then(|| "s3cret".to_owned()))
}

#[test]
fn a_file_gives_servers_with_their_defaults() {
    let config = parse(
        r#"
        [servers.files]
        command = ["npx", "-y", "server", "/data"]
        env = { Mode = "ro" }
        pass_env = ["SECRET"]
        scopes = ["project"]
        projects = ["0190b6f1-8d3e-7cc4-a1c7-3f7f6c1d2e4b"]
        tools = ["read_file"]

        [servers.web-2]
        url = "https://example.org/mcp"
        bearer_env = "SECRET"
        timeout_seconds = 5
        "#,
    )
    .unwrap();
    let [files, web] = config.servers.as_slice() else { panic!("{config:?}") };
    let TransportConfig::Stdio { program, args, env, .. } = &files.transport else { panic!() };
    assert_eq!((program.as_str(), args.len()), ("npx", 3));
    // Names keep their letter case.
    assert_eq!(env["Mode"], "ro");
    assert_eq!(env["SECRET"], "s3cret");
    assert_eq!((files.timeout.as_secs(), files.output_bytes, files.max_calls), (60, 32 * 1024, 8));
    let TransportConfig::Http { headers, .. } = &web.transport else { panic!() };
    assert_eq!(headers[0].1, "Bearer s3cret");
    assert_eq!((web.timeout.as_secs(), web.scopes.len()), (5, 3));
    assert!(!format!("{config:?}").contains("s3cret"), "secrets are not shown");
    assert!(parse("").unwrap().is_empty());
}

#[test]
fn a_server_is_offered_where_its_scope_and_projects_are() {
    let config = parse(
        r#"
        [servers.a]
        command = ["a"]
        projects = ["0190b6f1-8d3e-7cc4-a1c7-3f7f6c1d2e4b"]
        scopes = ["project", "global"]
        "#,
    )
    .unwrap();
    let server = &config.servers[0];
    let (mine, other) = (server.projects[0], ProjectId(uuid::Uuid::from_u128(1)));
    assert!(server.offers(&RunContext::project(mine)));
    assert!(!server.offers(&RunContext::project(other)));
    assert!(server.offers(&RunContext::default()));
    let several = RunContext { scope: Scope::MultiProject, project_ids: vec![mine, other] };
    assert!(!server.offers(&several), "its scope is not in the list");
}

#[test]
fn every_problem_is_named_with_its_field_and_at_once() {
    for (text, field) in [
        ("servers = 1", "servers"),
        ("[server.a]\ncommand = [\"a\"]", "server"),
        ("[servers.A]\ncommand = [\"a\"]", "servers.A"),
        ("[servers.a__b]\ncommand = [\"a\"]", "servers.a__b"),
        ("[servers.a]", "servers.a"),
        ("[servers.a]\ncommand = []", "servers.a.command"),
        ("[servers.a]\ncommand = [\"\"]", "servers.a.command"),
        ("[servers.a]\ncommand = [\"a\"]\nurl = \"http://x/\"", "servers.a"),
        ("[servers.a]\ncommand = [\"a\"]\nbearer_env = \"SECRET\"", "servers.a.bearer_env"),
        ("[servers.a]\ncommand = [\"a\"]\npass_env = [\"MISSING\"]", "servers.a.pass_env[0]"),
        ("[servers.a]\ncommand = [\"a\"]\ncwd = \"/nowhere/at/all\"", "servers.a.cwd"),
        ("[servers.a]\ncommand = [\"a\"]\ntimeout_seconds = 0", "servers.a.timeout_seconds"),
        ("[servers.a]\ncommand = [\"a\"]\noutput_bytes = -1", "servers.a.output_bytes"),
        ("[servers.a]\ncommand = [\"a\"]\nmax_calls = 1000", "servers.a.max_calls"),
        ("[servers.a]\ncommand = [\"a\"]\nscopes = [\"all\"]", "servers.a.scopes[0]"),
        ("[servers.a]\ncommand = [\"a\"]\nprojects = [\"mine\"]", "servers.a.projects[0]"),
        ("[servers.a]\nurl = \"ftp://x/\"", "servers.a.url"),
        ("[servers.a]\nurl = \"http://u:p@x/\"", "servers.a.url"),
        ("[servers.a]\nurl = \"http://x/\"\ncwd = \"/\"", "servers.a.cwd"),
        ("[servers.a]\nurl = \"http://x/\"\nheaders = { \"a b\" = \"c\" }", "servers.a.headers.a b"),
        ("[servers.a]\nurl = \"http://x/\"\nbearer_env = \"MISSING\"", "servers.a.bearer_env"),
    ] {
        let problems = parse(text).unwrap_err();
        assert!(problems[0].starts_with(&format!("{field} ")), "{text}: {problems:?}");
    }
    for (text, part) in [
        ("[servers.a]\ncommand = [\"a\"]\ntimeout = 5", "timeout"),
        ("[servers.a]\ncommand = [\"a\"]\nmax_calls = \"many\"", "max_calls"),
        ("[servers.a]\ncommand = 5", "command"),
    ] {
        let problems = parse(text).unwrap_err();
        assert!(problems[0].starts_with("servers.a ") && problems[0].contains(part), "{text}: {problems:?}");
    }
    assert!(parse("not toml").unwrap_err()[0].contains("TOML"));
    let both = parse("[servers.a]\n[servers.b]\nurl = \"x\"").unwrap_err();
    assert_eq!(both.len(), 2, "{both:?}");
}

#[test]
fn a_token_goes_over_plain_http_only_to_this_machine() {
    let checked = |url: &str, secret: &str| {
        parse(&format!("[servers.a]\nurl = \"{url}\"\n{secret}")).unwrap().without_plaintext_tokens()
    };
    let bearer = "bearer_env = \"SECRET\"";
    let refused = checked("http://tools.example.org/mcp", bearer).unwrap_err();
    assert_eq!(refused.len(), 1, "{refused:?}");
    for part in [
        "servers.a.bearer_env: the token in SECRET",
        "tools.example.org",
        "https://",
        "--allow-plaintext-token",
    ] {
        assert!(refused[0].contains(part), "{refused:?}");
    }
    assert!(!refused[0].contains("s3cret"), "{refused:?}");
    let header =
        checked("http://10.0.0.1:9000/mcp", "headers = { Authorization = \"Basic eDp5\" }").unwrap_err();
    assert!(header[0].starts_with("servers.a.headers: "), "{header:?}");
    for url in
        ["http://127.0.0.1:9000/mcp", "http://localhost/mcp", "http://[::1]:9/mcp", "https://example.org/mcp"]
    {
        assert!(checked(url, bearer).is_ok(), "{url}");
    }
    assert!(checked("http://tools.example.org/mcp", "headers = { x-team = \"a\" }").is_ok(), "no secret");
}
