// The page: which chat is open, and who hears of what happens in it.

import { pages, sessions } from "./api.js";
import { Actions } from "./actions.js";
import { Composer } from "./composer.js";
import { announce, byId, icon } from "./dom.js";
import { Feedback } from "./feedback.js";
import { agents, connection, header, hint, title } from "./heading.js";
import { Live } from "./live.js";
import { drawOrchestrator } from "./orchestrators.js";
import { PAGE, Reading } from "./reading.js";
import { Saying } from "./saying.js";
import { Scroll } from "./scroll.js";
import { Sidebar } from "./sidebar.js";
import { Transcript, textOf } from "./transcript.js";

const REFRESH = 20000;

const feedback = new Feedback((error) => page.composer.notice(error.message));
const page = {
  /** The chat that is open. Each opening is another one, so that late answers are told apart. */
  open: { id: null, session: null },
  scroll: new Scroll(),
  sidebar: new Sidebar({ onOpen: (id) => go(id) }),
  composer: new Composer({ onSend: (draft) => saying.send(draft), onStop: () => saying.stop() }),
  transcript: new Transcript(byId("messages"), { onRedact: (id) => actions.redact(id), feedback }),
  live: new Live({ onMessage, onSession, onRemoved, onFeedback, onReset, onGone, onState: connection, onAgain }),
};
const { composer, live, scroll, sidebar, transcript } = page;
const reading = new Reading(page);
const saying = new Saying(page, reading);
const actions = new Actions(page, reading, async (id) => {
  sidebar.drop(id);
  if (page.open.id === id) await go(null);
});

// --- opening ------------------------------------------------------------------------------------

function go(id) {
  const address = id ? pages.chat(id) : pages.home;
  if (location.pathname !== address) history.pushState(null, "", address);
  return show(id);
}

async function show(id) {
  const opened = (page.open = { id, session: null });
  saying.leave();
  reading.leave();
  live.stop();
  transcript.clear();
  feedback.clear();
  byId("orchestrators").replaceChildren();
  composer.clear();
  hint("");
  byId("read-only").hidden = true;
  byId("actions").hidden = true;
  byId("welcome").hidden = Boolean(id);
  sidebar.mark(id);
  composer.show(!id);
  if (!id) {
    title(gettext("New chat"), "");
    composer.focus();
    return;
  }
  title("…", "");
  hint(gettext("Loading …"));
  try {
    await fill(opened);
  } catch (error) {
    if (page.open !== opened) return;
    title(error.status === 404 ? gettext("Not found") : gettext("Chat"), "");
    byId("actions").hidden = true;
    hint(error.status === 404 ? gettext("This chat does not exist, or belongs to another user.") : error.message);
  }
}

async function fill(opened) {
  const { id } = opened;
  const [session, last] = await Promise.all([sessions.get(id), sessions.messages(id, { order: "desc", limit: PAGE })]);
  if (page.open !== opened) return;
  hint("");
  opened.session = session;
  const answered = agents.has(session.metadata?.agent);
  transcript.readOnly = !answered;
  header(session);
  transcript.apply(last.results);
  byId("actions").hidden = false;
  byId("older").hidden = !last.next;
  byId("read-only").hidden = answered;
  composer.show(answered);
  scroll.toEnd();
  live.follow(sessions.events(id));
  onFeedback();
  if (answered) {
    composer.focus();
    saying.join();
  } else {
    byId("title").focus({ preventScroll: true });
    await showOrchestrators(opened);
  }
  if (page.open === opened && transcript.isEmpty && !byId("orchestrators").hasChildNodes()) hint(gettext("No messages yet."));
}

async function showOrchestrators(opened) {
  const found = await sessions.orchestrators(opened.id);
  if (page.open !== opened) return;
  byId("orchestrators").replaceChildren(...found.map(drawOrchestrator));
}

// --- what happens elsewhere ---------------------------------------------------------------------

function onMessage(message) {
  const taken = transcript.apply([message]);
  if (message.role === "user" || message.redacted_at) readTitle();
  if (!taken.length) return;
  hint("");
  scroll.follow(!saying.isAnswering);
  if (saying.isAnswering) return;
  if (message.role === "user") saying.join();
  else announce(interpolate(gettext("Agent: %s"), [textOf(message)]));
}

function onSession(session) {
  if (page.open.id !== session.id || !page.open.session) return;
  Object.assign(page.open.session, session);
  header(page.open.session);
  sidebar.update(page.open.session);
  readTitle();
}

/** Reads anew what a chat without a title is called: its first words are new, or redacted. */
async function readTitle() {
  const opened = page.open;
  if (!opened.session || opened.session.title) return;
  try {
    Object.assign(opened.session, await sessions.get(opened.id));
  } catch {
    return;
  }
  if (page.open === opened) header(opened.session);
  sidebar.update(opened.session);
}

/** An agent's messages from a position on are not there any more. */
function onRemoved({ agent, position }) {
  transcript.removeFrom(agent, position);
  reading.catchUp();
}

/** Ratings or comments were changed: here, on another page of the user, or by a redaction. */
function onFeedback() {
  const opened = page.open;
  if (!opened.id) return;
  // Without a connection, the page says so and reads again later.
  feedback.load(opened.id).catch((error) => page.open === opened && !error.isOffline && composer.notice(error.message));
}

/** The connection is back; meanwhile no event was heard. */
function onAgain() {
  reading.catchUp();
  onFeedback();
}

/** What was told before is not to be built on any more. */
function onReset() {
  transcript.clear();
  onAgain();
}

function onGone() {
  if (!page.open.id) return;
  sidebar.drop(page.open.id);
  saying.leave();
  reading.leave();
  live.stop();
  transcript.clear();
  composer.show(false);
  byId("actions").hidden = true;
  title(gettext("Deleted"), "");
  hint(gettext("This chat was deleted."));
}

// --- what is done here --------------------------------------------------------------------------

byId("to-end").prepend(icon("down"));

byId("ideas").addEventListener("click", (event) => {
  const idea = event.target.closest("button");
  if (idea) composer.fill(idea.textContent);
});

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && composer.busy && !document.querySelector("dialog[open]")) saying.stop();
});

document.addEventListener("click", (event) => {
  const fresh = event.target.closest("a[data-new]");
  if (!fresh || event.metaKey || event.ctrlKey || event.shiftKey) return;
  event.preventDefault();
  sidebar.close();
  go(null);
});

addEventListener("popstate", () => show(pages.id()));
addEventListener("focus", () => sidebar.refresh());
setInterval(() => document.hidden || sidebar.refresh(), REFRESH);

sidebar.refresh();
show(pages.id());
