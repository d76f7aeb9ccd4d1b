//! The loop: keys, news, ticks and signals go in; frames and requests come out.

use std::time::Duration;

use base64::Engine as _;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep_until};

use crate::ask::{Kind, News, Request};
use crate::keys::{Effect, press};
use crate::screen::decode::Decoder;
use crate::screen::grid::Grid;
use crate::screen::paint::paint;
use crate::screen::terminal::Terminal;
use crate::state::Model;
use crate::view::draw;
use failure::Failure;
use term::screen::Look;

/// Time from one look to the next.
const EVERY: Duration = Duration::from_secs(1);
/// Time without an answer after which the screen says that there is none.
const SILENT: Duration = Duration::from_secs(4);
/// Time after which an Escape byte alone is the key Escape, and not the beginning of another key.
const ESCAPE: Duration = Duration::from_millis(50);

/// Draws until `q`. `program` is how commands begin that do the same; `asks` takes requests, and `news` brings what answers them.
pub async fn run(
    look: Look,
    read_only: bool,
    program: String,
    asks: UnboundedSender<Request>,
    news: UnboundedReceiver<News>,
) -> Result<(), Failure> {
    let terminal = Terminal::open()?;
    let mut model = Model::new(look, terminal.size(), read_only);
    model.program = program;
    let mut signals = Signals::new()?;
    let mut ticks = interval(EVERY);
    // After a stop no looks are made up for.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut screen =
        Screen { terminal, model, asks, shown: None, looked: None, paged: false, is_stale: false };
    screen.ask(Request::Events(true));
    screen.go(news, &mut signals, &mut ticks).await
}

struct Signals {
    resized: Signal,
    stopped: Signal,
    continued: Signal,
    ends: [Signal; 4],
}

impl Signals {
    fn new() -> Result<Signals, Failure> {
        let [int, term, hup, quit] =
            [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup(), SignalKind::quit()];
        Ok(Signals {
            resized: signal(SignalKind::window_change())?,
            stopped: signal(SignalKind::from_raw(nix::sys::signal::Signal::SIGTSTP as i32))?,
            continued: signal(SignalKind::from_raw(nix::sys::signal::Signal::SIGCONT as i32))?,
            ends: [signal(int)?, signal(term)?, signal(hup)?, signal(quit)?],
        })
    }

    async fn end(ends: &mut [Signal; 4]) {
        let [int, term, hup, quit] = ends;
        tokio::select! {
            _ = int.recv() => {}
            _ = term.recv() => {}
            _ = hup.recv() => {}
            _ = quit.recv() => {}
        }
    }
}

struct Screen {
    terminal: Terminal,
    model: Model,
    asks: UnboundedSender<Request>,
    /// What the terminal shows.
    shown: Option<Grid>,
    /// Since when a look is not answered.
    looked: Option<Instant>,
    /// Whether a page is not answered.
    paged: bool,
    /// Whether the page is older than the latest look.
    is_stale: bool,
}

impl Screen {
    async fn go(
        &mut self,
        mut news: UnboundedReceiver<News>,
        signals: &mut Signals,
        ticks: &mut Interval,
    ) -> Result<(), Failure> {
        let mut decoder = Decoder::default();
        loop {
            self.frame()?;
            let escape = decoder.waits().then(|| Instant::now() + ESCAPE);
            tokio::select! {
                // Keys first: a person waits for them.
                biased;
                typed = self.terminal.typed.recv() => {
                    // The terminal is gone.
                    let Some(bytes) = typed else { return Ok(()) };
                    // All that is there at once: many keys make one picture.
                    let mut bytes = vec![bytes];
                    while let Ok(more) = self.terminal.typed.try_recv() {
                        bytes.push(more);
                    }
                    for key in decoder.feed(&bytes.concat()) {
                        if self.press(key, ticks)? {
                            return Ok(());
                        }
                    }
                }
                () = sleep_until(escape.unwrap_or_else(Instant::now)), if escape.is_some() => {
                    if let Some(key) = decoder.rest() && self.press(key, ticks)? {
                        return Ok(());
                    }
                }
                () = Signals::end(&mut signals.ends) => return Ok(()),
                _ = signals.resized.recv() => self.model.resize(self.terminal.size()),
                _ = signals.stopped.recv() => {
                    self.terminal.stop()?;
                    self.shown = None;
                }
                _ = signals.continued.recv() => {
                    // Another program may have drawn, and changed the size, meanwhile.
                    self.terminal.again()?;
                    self.shown = None;
                    self.model.resize(self.terminal.size());
                }
                heard = news.recv() => {
                    let Some(first) = heard else { return Ok(()) };
                    self.hear(first);
                    while let Ok(more) = news.try_recv() {
                        self.hear(more);
                    }
                }
                _ = ticks.tick(), if !self.model.frozen => self.look(),
            }
        }
    }

    /// Draws what has changed.
    fn frame(&mut self) -> Result<(), Failure> {
        let next = draw(&self.model);
        let bytes = paint(self.shown.as_ref(), &next, self.model.look.color);
        if !bytes.is_empty() {
            self.terminal.write(&bytes)?;
        }
        self.shown = Some(next);
        Ok(())
    }

    fn ask(&mut self, request: Request) {
        // Nobody answers at the end.
        let _ = self.asks.send(request);
    }

    /// Looks, unless the look before is not answered: then it says so.
    fn look(&mut self) {
        match self.looked {
            None => {
                self.looked = Some(Instant::now());
                self.ask(Request::Look(self.model.want()));
            }
            Some(since) if since.elapsed() >= SILENT => {
                let trouble = format!("no answer for {} s", since.elapsed().as_secs());
                self.model.trouble = Some(trouble);
            }
            Some(_) => {}
        }
    }

    /// Asks for the page of the selected thing, if it is not there or old. One at a time: keys may come faster.
    fn page(&mut self) {
        let is_other = self.model.pane.of != self.model.subject();
        if self.paged || !(is_other || self.is_stale) || self.model.pane.kind == Kind::Output {
            return;
        }
        match self.model.wanted_page() {
            Some(request) => {
                (self.paged, self.is_stale) = (true, false);
                self.ask(request);
            }
            None => self.model.pane.clear(),
        }
    }

    fn hear(&mut self, news: News) {
        match &news {
            News::Seen(seen) => {
                (self.looked, self.is_stale) = (None, true);
                // The tab was turned meanwhile.
                if seen.tab != self.model.tab {
                    self.look();
                }
            }
            News::Unseen(_) => self.looked = None,
            News::Page { .. } => self.paged = false,
            News::Done(_) | News::Output(..) | News::Happened(_) => {}
        }
        let is_done = matches!(news, News::Done(_));
        self.model.hear(news);
        if is_done {
            self.look();
        }
        self.page();
    }

    /// Handles a key; gives whether it ends the screen.
    fn press(&mut self, key: crate::screen::decode::Key, ticks: &mut Interval) -> Result<bool, Failure> {
        for effect in press(&mut self.model, key) {
            match effect {
                Effect::Quit => return Ok(true),
                Effect::Ask(request) => self.ask(request),
                Effect::Look => {
                    // The next look is a whole second later.
                    ticks.reset();
                    self.look();
                }
                Effect::Redraw => self.shown = None,
                Effect::Copy(text) => {
                    let text = base64::engine::general_purpose::STANDARD.encode(text);
                    // OSC 52: the terminal, perhaps on another machine, puts it into its clipboard.
                    self.terminal.write(&format!("\x1b]52;c;{text}\x07"))?;
                }
            }
        }
        self.page();
        Ok(false)
    }
}
