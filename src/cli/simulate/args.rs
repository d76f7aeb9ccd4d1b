//! What `simulate` is given.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::PossibleValuesParser;

use config::parse_duration;
use model::{Order, QUEUE_PRIORITY_MAX, QueueName};
use simulate::Goal;

/// Text below the help.
pub(crate) const HELP: &str = "\
FILE is YAML with duration and queues, or CSV (its name ends in .csv) with the columns queue,arrival,run_time or, as kale has \
them, queue,run_time. A worker chooses among queues as in a pool whose order is the selector.

The jobs wait where -b or TASKVISOR_BROKER says, in the embedded store by default. Nothing is opened: -b sqs is enough for \
Amazon SQS, whose receives and buffers change how long jobs wait, and whose calls cost something.

Examples:
  taskvisor simulate load.yaml -w 12 --selector reduced_lottery
  taskvisor simulate load.yaml -w 12 --selector all
  taskvisor simulate load.yaml -w 12 -b sqs
  taskvisor simulate load.yaml -w 4..64 --slo 'mail<5s'";

/// Which workload, and what is tried on it.
#[derive(Debug, clap::Args)]
pub(crate) struct Simulate {
    /// The workload: YAML, or CSV
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// How many workers, or a range to try: 4..64
    #[arg(short, long, value_name = "N", default_value = "8", value_parser = workers)]
    pub workers: RangeInclusive<u16>,
    /// From which queue first, as the order of a pool, or all to compare; may be given several times
    #[arg(long = "selector", value_name = "ORDER", default_value = "ordered", value_parser = selectors())]
    pub selectors: Vec<String>,
    /// Find the smallest fleet whose queue stays below it: 'mail<5s' (the p95), 'mail.p99<5s', '*.mean<1s'; all must
    #[arg(long = "slo", value_name = "GOAL")]
    pub goals: Vec<Goal>,
    /// Another priority for a queue, from 1 to 100; may be given several times
    #[arg(long = "priority", value_name = "QUEUE=N", value_parser = priority)]
    pub priorities: Vec<(QueueName, u8)>,
    /// Of a CSV without arrivals: from one job to the next
    #[arg(long, value_name = "DURATION", default_value = "10ms", value_parser = parse_duration)]
    pub interval: Duration,
    /// From the moment a job is asked for to its start
    #[arg(long, value_name = "DURATION", default_value = "1ms", value_parser = parse_duration)]
    pub latency: Duration,
    /// The same seed gives the same figures
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// How long a call takes that need not wait for a job
    #[arg(long, value_name = "DURATION", default_value = "20ms", value_parser = parse_duration, help_heading = "Amazon SQS")]
    pub call: Duration,
    /// The price of a million calls
    #[arg(long, value_name = "PRICE", default_value_t = 0.40, value_parser = price, help_heading = "Amazon SQS")]
    pub price: f64,
    /// Print as JSON, schema taskvisor.simulate/1
    #[arg(long)]
    pub json: bool,
}

impl Simulate {
    /// The orders to try, each once.
    pub(crate) fn orders(&self) -> Vec<Order> {
        let is_meant =
            |order: &Order| self.selectors.iter().any(|word| word == "all" || word == order.as_str());
        Order::ALL.into_iter().filter(is_meant).collect()
    }
}

fn selectors() -> PossibleValuesParser {
    PossibleValuesParser::new(Order::ALL.map(Order::as_str).into_iter().chain(["all"]))
}

fn workers(text: &str) -> Result<RangeInclusive<u16>, String> {
    let wrong = || format!("'{text}' is no number of workers from 1 to 65535, and no range like 4..64");
    let number = |text: &str| text.parse::<u16>().ok().filter(|number| *number > 0).ok_or_else(wrong);
    let (least, most) = text.split_once("..").unwrap_or((text, text));
    let (least, most) = (number(least)?, number(most.trim_start_matches('='))?);
    if least > most {
        Err(format!("'{text}' is empty: the range begins above its end"))
    } else {
        Ok(least..=most)
    }
}

fn priority(text: &str) -> Result<(QueueName, u8), String> {
    let wrong = || format!("'{text}' is no priority like mail=80, from 1 to 100");
    let (queue, number) = text.rsplit_once('=').filter(|(queue, _)| !queue.is_empty()).ok_or_else(wrong)?;
    let number = number.parse::<u8>().ok().filter(|number| (1..=QUEUE_PRIORITY_MAX).contains(number));
    Ok((queue.into(), number.ok_or_else(wrong)?))
}

fn price(text: &str) -> Result<f64, String> {
    let price = text.parse::<f64>().ok().filter(|price| price.is_finite() && *price >= 0.0);
    price.ok_or_else(|| format!("'{text}' is no price"))
}
