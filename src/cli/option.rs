//! The command `option get|set|unset|dump|load`.

use std::path::Path;

use super::access::Access;
use super::args::option::{OptionCommand, OptionGet, OptionLoad, OptionSet, OptionUnset};
use super::term::screen::{Look, escaped, print, print_json, table};
use config::{Config, limited, read_text};
use failure::{Failure, exit};
use model::verb::{LoadOptions, OptionShown, SetOption, ShowOptions, UnsetOption};
use model::{OptionName, Options, QueueName};

/// Runs one of the commands.
pub(super) async fn run(config: &Config, command: &OptionCommand) -> Result<u8, Failure> {
    match command {
        OptionCommand::Get(args) => get(config, args).await,
        OptionCommand::Set(args) => set(config, args).await,
        OptionCommand::Unset(args) => unset(config, args).await,
        OptionCommand::Dump => dump(config).await,
        OptionCommand::Load(args) => load(config, args).await,
    }
}

async fn shown(config: &Config) -> Result<Vec<OptionShown>, Failure> {
    Access::open(config).await?.ask(ShowOptions {}).await
}

/// Prints all options, or the value of one.
async fn get(config: &Config, args: &OptionGet) -> Result<u8, Failure> {
    let queue = args.queue.as_deref().map(QueueName::from);
    let Some(name) = &args.name else {
        let options = shown(config).await?;
        let is_asked =
            |option: &&OptionShown| queue.is_none() || option.queue.is_none() || option.queue == queue;
        let options: Vec<OptionShown> = options.iter().filter(is_asked).cloned().collect();
        match args.json {
            true => print_json(&options)?,
            false => print(&render(&options, &Look::of_stdout(false)))?,
        }
        return Ok(exit::OK);
    };
    let mut of_name: Vec<OptionShown> = shown(config).await?;
    of_name.retain(|option| option.name == *name);
    let own = of_name.iter().find(|option| queue.is_some() && option.queue == queue);
    // In the answer the value for all queues comes before those of single queues.
    let Some(option) = own.or(of_name.first()) else {
        let why = name.parse::<OptionName>().err().unwrap_or_else(|| format!("no option is called '{name}'"));
        return Err(Failure::new(exit::USAGE, why));
    };
    match args.json {
        true => print_json(option)?,
        false => print(&format!("{}\n", option.value))?,
    }
    Ok(exit::OK)
}

fn render(options: &[OptionShown], look: &Look) -> String {
    let row = |option: &OptionShown| {
        let queue = option.queue.as_ref().map_or("-", QueueName::as_str);
        let set = if option.is_set { "set" } else { "default" };
        let cells = [option.name.as_str(), queue, &option.value, set, &option.does];
        cells.iter().map(|cell| escaped(cell).into_owned()).collect()
    };
    let rows: Vec<Vec<String>> = options.iter().map(row).collect();
    table(look, &["OPTION", "QUEUE", "VALUE", "FROM", "WHAT"], &rows)
}

async fn set(config: &Config, args: &OptionSet) -> Result<u8, Failure> {
    let OptionSet { name, value, queue, json } = args;
    let queue = queue.as_deref().map(QueueName::from);
    let verb = SetOption { name: name.clone(), value: value.clone(), queue };
    Access::open_or_make(config).await?.ask(verb).await?;
    if *json {
        print_json(&serde_json::json!({ "name": name, "queue": args.queue, "value": value }))?;
    }
    Ok(exit::OK)
}

async fn unset(config: &Config, args: &OptionUnset) -> Result<u8, Failure> {
    let OptionUnset { name, queue, json } = args;
    let verb = UnsetOption { name: name.clone(), queue: queue.as_deref().map(QueueName::from) };
    Access::open(config).await?.ask(verb).await?;
    if *json {
        print_json(&serde_json::json!({ "name": name, "queue": queue, "value": null }))?;
    }
    Ok(exit::OK)
}

/// Prints the options that are set.
async fn dump(config: &Config) -> Result<u8, Failure> {
    let mut options = Options::default();
    for OptionShown { name, queue, value, .. } in shown(config).await?.into_iter().filter(|one| one.is_set) {
        let is_known = name.parse::<OptionName>().is_ok();
        match queue {
            None if is_known => options.all.insert(name, value),
            Some(queue) if is_known => options.queues.entry(queue).or_default().insert(name, value),
            None => options.others.insert(name, value),
            // As qless names it in `ql:config`: the queue comes first.
            Some(queue) => options.others.insert(format!("{queue}-{name}"), value),
        };
    }
    print_json(&options)?;
    Ok(exit::OK)
}

/// Sets the options of a file. An empty file is refused: a dump that failed must not clear them.
async fn load(config: &Config, args: &OptionLoad) -> Result<u8, Failure> {
    let text = read(&args.file).map_err(|error| {
        Failure::new(exit::IO, format!("failed to read {}: {error}", args.file.display()))
    })?;
    let options: Options = serde_json::from_str(&text).map_err(|error| {
        let why = format!("{} is not what option dump writes: {error}", args.file.display());
        Failure::new(exit::USAGE, why)
    })?;
    Access::open_or_make(config).await?.ask(LoadOptions { options, clear: args.clear }).await?;
    Ok(exit::OK)
}

/// The largest file of options, in bytes.
const LONGEST: u64 = 16 << 20;

fn read(file: &Path) -> std::io::Result<String> {
    if file != Path::new("-") {
        return read_text(file, LONGEST);
    }
    limited(std::io::stdin(), LONGEST)
}
