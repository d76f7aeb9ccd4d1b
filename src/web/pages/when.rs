//! Schedules in words.

use model::{Schedule, format_duration};

/// A schedule in words, a line of crontab with the line itself.
pub(crate) fn words(schedule: &Schedule) -> String {
    match schedule {
        Schedule::Every { interval, .. } => format!("every {}", format_duration(*interval)),
        Schedule::Cron { line, zone } => {
            let line = line.to_string();
            match in_words(&line) {
                Some(words) => format!("{words} ({line}, {zone})"),
                None => format!("{line} ({zone})"),
            }
        }
    }
}

/// A field of a line of crontab.
enum Field {
    Any,
    /// Each so many.
    Step(u32),
    /// From one to another.
    Range(u32, u32),
    /// One or several values.
    Some(Vec<u32>),
}

const DAYS: [&str; 8] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const MONTHS: [&str; 13] = [
    "",
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
/// Limit of the times, days or months that a schedule in words lists one by one.
const FEW: usize = 7;

impl Field {
    /// Reads a field. Names are those of days or months, of which three letters count.
    fn read(text: &str, names: &[&str]) -> Option<Field> {
        let number = |text: &str| {
            let is_it = |name: &&&str| text.len() == 3 && name.to_ascii_lowercase().starts_with(text);
            let named = || names.iter().position(|name| is_it(&name)).map(|at| at as u32);
            text.parse().ok().or_else(named)
        };
        if text == "*" {
            return Some(Field::Any);
        }
        if let Some(step) = text.strip_prefix("*/") {
            return step.parse().ok().map(|step| if step == 1 { Field::Any } else { Field::Step(step) });
        }
        if let Some((from, to)) = text.split_once('-')
            && let (Some(from), Some(to)) = (number(from), number(to))
        {
            return Some(Field::Range(from, to));
        }
        text.split(',').map(number).collect::<Option<Vec<u32>>>().map(Field::Some)
    }

    /// The only value.
    fn only(&self) -> Option<u32> {
        if let Field::Some(all) = self
            && let [only] = all.as_slice()
        {
            return Some(*only);
        }
        None
    }

    /// The values one by one, if they are few.
    fn few(&self) -> Option<Vec<u32>> {
        match self {
            Field::Some(all) => Some(all.clone()),
            Field::Range(from, to) => Some((*from..=*to).collect()),
            Field::Any | Field::Step(_) => None,
        }
        .filter(|all| !all.is_empty() && all.len() <= FEW)
    }
}

/// Words with commas between them, and the last with `and`.
fn list(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// A line of crontab in words, unless they would be longer than the line is hard to read.
fn in_words(line: &str) -> Option<String> {
    let line = line.to_ascii_lowercase();
    let line = match line.trim() {
        "@hourly" => "0 * * * *",
        "@daily" | "@midnight" => "0 0 * * *",
        "@weekly" => "0 0 * * 0",
        "@monthly" => "0 0 1 * *",
        "@yearly" | "@annually" => "0 0 1 1 *",
        line => line,
    };
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [minute, hour, day, month, weekday] = fields.as_slice() else { return None };
    let (minute, hour) = (Field::read(minute, &[])?, Field::read(hour, &[])?);
    let days = on(&Field::read(day, &[])?, &Field::read(month, &MONTHS)?, &Field::read(weekday, &DAYS)?)?;
    if let Some(often) = often(&minute, &hour) {
        return Some(often + &days.map(|days| format!(" {days}")).unwrap_or_default());
    }
    let (minute, hours) = (minute.only()?, hour.few()?);
    let times: Vec<String> = hours.iter().map(|hour| format!("{hour:02}:{minute:02}")).collect();
    Some(format!("{} at {}", days.unwrap_or_else(|| "daily".into()), list(&times)))
}

/// The words for a schedule that repeats within a day; None if its times are listed instead.
fn often(minute: &Field, hour: &Field) -> Option<String> {
    let minutes = match minute {
        Field::Any => "every minute".to_owned(),
        // The last of an hour is followed by the first of the next, however soon that is.
        Field::Step(step) if 60 % step != 0 => format!("every {step} minutes of each hour"),
        Field::Step(step) => format!("every {step} minutes"),
        Field::Some(_) | Field::Range(..) => {
            let all = minute.few()?;
            let which: Vec<String> = all.iter().map(u32::to_string).collect();
            match hour {
                Field::Any if all.len() == 1 => return Some(format!("hourly at minute {}", all[0])),
                Field::Any => return Some(format!("at minutes {} of each hour", list(&which))),
                Field::Step(step) => {
                    let from = if 24 % step == 0 { "" } else { " from midnight on" };
                    let at = if all == [0] { String::new() } else { format!(" at minute {}", list(&which)) };
                    return Some(format!("every {step} hours{from}{at}"));
                }
                // Up to three hours are listed one by one, by the caller.
                Field::Range(from, to) if all.len() == 1 && (to + 1).saturating_sub(*from) > 3 => {
                    return Some(format!("hourly from {from:02}:{0:02} to {to:02}:{0:02}", all[0]));
                }
                Field::Range(..) | Field::Some(_) => return None,
            }
        }
    };
    match hour {
        Field::Any => Some(minutes),
        Field::Range(from, to) => Some(format!("{minutes} from {from:02}:00 to {to:02}:59")),
        Field::Some(_) => hour.only().map(|hour| format!("{minutes} from {hour:02}:00 to {hour:02}:59")),
        Field::Step(_) => None,
    }
}

/// On which days; none inside = on all. With both a day and a weekday crontab means either, which has no short words.
fn on(day: &Field, month: &Field, weekday: &Field) -> Option<Option<String>> {
    let named = |field: &Field, names: &[&str]| {
        let words: Option<Vec<String>> =
            field.few()?.iter().map(|at| names.get(*at as usize).map(|name| (*name).to_owned())).collect();
        words.map(|words| list(&words))
    };
    let of_months = match month {
        Field::Any => None,
        Field::Step(_) => return None,
        Field::Some(_) | Field::Range(..) => Some(named(month, &MONTHS)?),
    };
    Some(match (day, weekday) {
        (Field::Any, Field::Any) => of_months.map(|months| format!("daily in {months}")),
        (Field::Any, Field::Step(_)) | (Field::Step(_), _) => return None,
        (Field::Any, _) => {
            let days = weekday.few()?;
            let days = match days.as_slice() {
                [1, 2, 3, 4, 5] => "on weekdays".into(),
                [0, 6] | [6, 7] | [6, 0] => "on weekends".into(),
                _ => format!("every {}", named(weekday, &DAYS)?),
            };
            Some(days + &of_months.map(|months| format!(" in {months}")).unwrap_or_default())
        }
        (_, Field::Any) => {
            let days: Vec<String> = day.few()?.iter().map(u32::to_string).collect();
            let which = if days.len() == 1 { "day" } else { "days" };
            let months = of_months.unwrap_or_else(|| "each month".into());
            Some(format!("on {which} {} of {months}", list(&days)))
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_told_in_words() {
        for (line, words) in [
            ("0 3 * * *", Some("daily at 03:00")),
            ("* * * * *", Some("every minute")),
            ("*/5 * * * *", Some("every 5 minutes")),
            ("*/7 * * * *", Some("every 7 minutes of each hour")),
            ("0 */6 * * *", Some("every 6 hours")),
            ("15 */5 * * *", Some("every 5 hours from midnight on at minute 15")),
            ("*/10 9-17 * * mon-fri", Some("every 10 minutes from 09:00 to 17:59 on weekdays")),
            ("0 8-18 * * *", Some("hourly from 08:00 to 18:00")),
            ("17 * * * *", Some("hourly at minute 17")),
            ("0,30 * * * *", Some("at minutes 0 and 30 of each hour")),
            ("0 9,12,17 * * *", Some("daily at 09:00, 12:00 and 17:00")),
            ("30 8 * * 1-5", Some("on weekdays at 08:30")),
            ("30 8 * * mon,sun", Some("every Monday and Sunday at 08:30")),
            ("30 8 * * sat,sun", Some("on weekends at 08:30")),
            ("30 8 * * 0,6", Some("on weekends at 08:30")),
            ("0 4 * * 1,3,5", Some("every Monday, Wednesday and Friday at 04:00")),
            ("0 3 1,15 * *", Some("on days 1 and 15 of each month at 03:00")),
            ("0 0 1 jan,JUL *", Some("on day 1 of January and July at 00:00")),
            ("@monthly", Some("on day 1 of each month at 00:00")),
            ("@yearly", Some("on day 1 of January at 00:00")),
            ("0 3 1 * 1", None),
            ("0,30 9,17 * * *", None),
            ("0 3 */2 * *", None),
        ] {
            assert_eq!(in_words(line).as_deref(), words, "{line}");
        }
    }
}
