//! What can be typed after `top`.

#[derive(Debug, clap::Args)]
pub(crate) struct Top {
    /// Look only: no key changes anything
    #[arg(long)]
    pub read_only: bool,
    /// Draw with ASCII only
    #[arg(long)]
    pub ascii: bool,
}

/// Text below `top --help`.
pub(crate) const HELP: &str = "\
Keys: 1 to 7 tabs, j k g G lines, Enter the page of a thing, l output, w why, / filter, o sort, t tree, p freeze, ? all keys,
q quit. An uppercase key changes something; first it shows the command that does the same, and waits for Y.
Without a supervisor it shows what the store knows, and it goes on by itself when one is back.

Examples:
  taskvisor top
  ssh -t q1 taskvisor top --read-only
  taskvisor -b redis://10.0.0.5 top";
