//! What can be typed after `web`.

use std::net::SocketAddr;
use std::path::PathBuf;

use config::page_path;

pub(super) const HELP: &str = "\
Prints an address that opens the page in one browser. With a token it can be opened by others, too; TLS is a proxy's business. SIGHUP reads the tokens again and ends all sessions; without a token it ends the page.

Examples:
  taskvisor web
  taskvisor web --listen 127.0.0.1:8080 --path /jobs --login-token-file /etc/taskvisor/web-token
  taskvisor web --url http://jobs.example.org:9180 --token-file token --read-only
  taskvisor web -b redis://localhost --redact password --redact '*.token'";

#[derive(Debug, clap::Args)]
pub(crate) struct Web {
    /// Address and port to listen on; port 0 = any that is free
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,
    /// The path below which a proxy shows the page
    #[arg(long, value_name = "/PATH", default_value = "", hide_default_value = true, value_parser = page_path)]
    pub path: String,
    /// A name by which browsers call it, besides addresses and localhost (repeatable)
    #[arg(long = "host", value_name = "NAME")]
    pub hosts: Vec<String>,
    /// The file with the token of those who may look and change
    #[arg(long, value_name = "FILE")]
    pub login_token_file: Option<PathBuf>,
    /// The file with the token of those who may look
    #[arg(long, value_name = "FILE")]
    pub view_token_file: Option<PathBuf>,
    /// Let nobody change anything
    #[arg(long)]
    pub read_only: bool,
    /// Hide fields of this name in data and results, as password or *.token (repeatable)
    #[arg(long, value_name = "NAME")]
    pub redact: Vec<String>,
    /// Show no data, results, commands or messages of jobs
    #[arg(long)]
    pub hide_data: bool,
    /// The supervisor that keeps it beside itself
    #[arg(long, value_name = "PID", hide = true)]
    pub beside: Option<i32>,
}
