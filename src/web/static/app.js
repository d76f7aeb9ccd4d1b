// What changes on a page: the server says that something has, the page fetches its part again and takes over what
// differs. What the reader does on it stays: focus, selection, scrolling, checked boxes, open parts.

const base = document.body.dataset.base;
const button = document.getElementById("live");
const main = () => document.getElementById("main");

// All tabs and later visits keep the choice.
let live = localStorage.getItem("tv-live") !== "off";
let running = null; // the fetch under way
let again = false; // something has changed meanwhile
let timer = 0;
let follower = null; // the output that is followed
let rest = 250; // between two fetches, longer where the server is slow
let known = ""; // what the server called the part that is shown

// Taking over what differs

const keyOf = (node) => (node.nodeType === 1 ? node.id || node.dataset.key || "" : "");
const fits = (one, other) =>
  one.nodeType === other.nodeType && one.nodeName === other.nodeName && keyOf(one) === keyOf(other);

function morph(old, now) {
  if (old.nodeType !== 1) {
    if (old.data !== now.data) old.data = now.data;
    return;
  }
  // An output that is followed grows by itself.
  if (old.dataset.keep !== undefined && old.dataset.keep === now.dataset.keep && follower && follower.place === old) return;
  attributes(old, now);
  if (old.nodeName === "TEXTAREA" || old.nodeName === "INPUT") return;
  children(old, now);
}

function attributes(old, now) {
  for (const { name, value } of [...now.attributes]) {
    if (old.getAttribute(name) !== value && !isReaders(old, name)) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    if (!now.hasAttribute(name) && !isReaders(old, name)) old.removeAttribute(name);
  }
}

// What the reader has set is not the server's.
function isReaders(node, name) {
  if (name === "open") return node.nodeName === "DETAILS";
  return (name === "value" || name === "checked") && (node.nodeName === "INPUT" || node.nodeName === "TEXTAREA");
}

function children(old, now) {
  const keyed = new Map();
  for (const child of old.childNodes) {
    const key = keyOf(child);
    if (key) keyed.set(key, child);
  }
  let place = old.firstChild;
  for (const wanted of [...now.childNodes]) {
    const key = keyOf(wanted);
    // A row that has moved keeps its element, and with it focus and a checked box.
    let found = key ? keyed.get(key) : null;
    if (found && !fits(found, wanted)) found = null;
    if (!found && !key && place && fits(place, wanted)) found = place;
    if (!found) {
      old.insertBefore(wanted, place);
      continue;
    }
    // Where two have one key, the second is taken for new.
    keyed.delete(key);
    if (found === place) place = place.nextSibling;
    else old.insertBefore(found, place);
    morph(found, wanted);
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

// Fetching

async function refresh() {
  if (running) {
    again = true;
    return;
  }
  if (document.hidden || !live || isBusy()) return;
  // Such a page is drawn when the reader asks: a look at the host or at processes costs something each time.
  if (!main().dataset.topics && !main().dataset.every) return;
  clearTimeout(timer);
  const begun = performance.now();
  running = new AbortController();
  // Twice as long as the server waits before it says that there is no answer.
  const limit = setTimeout(() => running.abort(), 10000);
  try {
    const answer = await fetch(location.href, {
      headers: { "tv-fragment": "1", "if-none-match": known },
      signal: running.signal,
      // A redirect leads to another page, which must not be put into this one.
      redirect: "error",
    });
    // The session has ended: the page that asks for a token comes instead.
    if (answer.status === 401) {
      location.reload();
      return;
    }
    if (answer.status !== 304) {
      take(await answer.text());
      known = answer.headers.get("etag") || "";
    }
    down(answer.status >= 500);
  } catch {
    down(true);
  } finally {
    clearTimeout(limit);
    running = null;
    // A server that takes long is asked less often.
    // At most a sixth of the time goes to fetching.
    rest = Math.min(5000, Math.max(250, (performance.now() - begun) * 5));
    if (again) {
      again = false;
      setTimeout(refresh, rest);
    }
    plan();
  }
}

// A question or a form that is being filled in is left alone.
function isBusy() {
  const focus = document.activeElement;
  return !!document.querySelector("form.ask") || (focus && focus.nodeName === "TEXTAREA");
}

function take(html) {
  // A parsed document runs no script.
  const parsed = new DOMParser().parseFromString(html, "text/html").getElementById("main");
  if (!parsed) return;
  // A notice stays until the reader goes on.
  const notice = main().querySelector(":scope > .notice");
  if (notice && !parsed.querySelector(":scope > .notice")) parsed.prepend(notice.cloneNode(true));
  morph(main(), parsed);
  if (document.title !== main().dataset.title) document.title = main().dataset.title;
  follow();
}

function plan() {
  clearTimeout(timer);
  const every = Number(main().dataset.every);
  if (every && live && !document.hidden) timer = setTimeout(refresh, every * 1000);
}

function down(isDown) {
  if (isDown) button.dataset.down = "";
  else delete button.dataset.down;
}

// What the server says

function changed(topics) {
  if (topics === "down") {
    refresh();
    return;
  }
  const wanted = (main().dataset.topics || "").split(" ").filter(Boolean);
  const told = topics.split(" ");
  if (told.includes("*") || wanted.includes("*") || told.some((topic) => wanted.includes(topic))) refresh();
}

// A browser opens six connections to a host: one tab listens for all.
const channel = new BroadcastChannel(`tv-live${base}`);
channel.onmessage = ({ data }) => changed(data);
let source = null;
let release = null;

function listen() {
  if (source || release || !live || document.hidden) return;
  // To wait for the lock is to listen, too: each tab asks for it once.
  release = () => {};
  const options = { mode: "exclusive", signal: undefined };
  const held = () =>
    new Promise((done) => {
      if (document.hidden || !live) {
        release = null;
        done();
        return;
      }
      source = new EventSource(`${base}/live`);
      source.addEventListener("changed", ({ data }) => {
        changed(data);
        channel.postMessage(data);
      });
      // What changed while there was no connection was told to nobody.
      source.onopen = () => refresh();
      source.onerror = () => {
        down(true);
        // The browser connects again by itself, but not after an answer that is no stream.
        if (source && source.readyState === EventSource.CLOSED) stop();
        setTimeout(listen, 2000);
      };
      release = done;
    });
  if (navigator.locks) navigator.locks.request(`tv-live${base}`, options, held);
  else held();
}

function stop() {
  if (!source) return;
  source.close();
  source = null;
  const done = release;
  release = null;
  if (done) done();
}

// The output of a job

function follow() {
  const place = main().querySelector("[data-follow]");
  if (follower && (follower.place !== place || !live || document.hidden)) {
    follower.source.close();
    follower = null;
  }
  if (follower || !place || !live || document.hidden) return;
  const output = place.querySelector("pre");
  // After a pause it goes on behind what is shown.
  const stream = new EventSource(place.dataset.next ? `${place.dataset.next}` : place.dataset.follow);
  follower = { place, source: stream };
  place.scrollTop = place.scrollHeight;
  stream.addEventListener("output", (event) => {
    const atEnd = place.scrollHeight - place.scrollTop - place.clientHeight < 40;
    const piece = new DOMParser().parseFromString(event.data, "text/html");
    output.append(...piece.body.childNodes);
    if (event.lastEventId) place.dataset.next = place.dataset.follow.replace(/from=\d+/, `from=${event.lastEventId}`);
    // What scrolls far out of sight would make the page slow.
    while (output.childNodes.length > 4000) output.firstChild.remove();
    if (atEnd) place.scrollTop = place.scrollHeight;
  });
  // Without a place to follow it, the output comes with the page.
  stream.onerror = () => {
    if (stream.readyState !== EventSource.CLOSED) return;
    if (follower && follower.source === stream) follower = null;
  };
  stream.addEventListener("end", () => {
    stream.close();
    follower = null;
    delete place.dataset.follow;
    refresh();
  });
}

// What the reader does

function show() {
  button.setAttribute("aria-pressed", String(live));
  button.textContent = live ? "live" : "paused";
}

function wake() {
  if (live && !document.hidden) {
    listen();
    refresh();
    follow();
  } else {
    stop();
    follow();
    clearTimeout(timer);
  }
}

button.hidden = false;
button.addEventListener("click", () => {
  live = !live;
  localStorage.setItem("tv-live", live ? "on" : "off");
  show();
  wake();
});
document.addEventListener("visibilitychange", wake);
// The lock must be free for other tabs while this page is kept for going back.
window.addEventListener("pagehide", stop);
window.addEventListener("pageshow", (event) => {
  if (event.persisted) wake();
});

// The key / goes to the search. There are no others: all else is a link or a button, which Tab reaches.
document.addEventListener("keydown", (event) => {
  const inField = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.nodeName);
  if (event.key === "/" && !inField && !event.ctrlKey && !event.metaKey && !event.altKey) {
    const search = document.getElementById("q");
    event.preventDefault();
    if (search) search.focus();
    else location.href = `${base}/jobs`;
  }
});

show();
listen();
plan();
follow();
