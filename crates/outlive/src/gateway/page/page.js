// Keeps the page up to date: asks for it again and carries over what has changed. It draws nothing itself.
"use strict";

const EVERY = 2000; // Milliseconds between an answer and the next question.
const PATIENCE = 10000; // Milliseconds until a question is given up.
const root = document.documentElement;
const live = document.getElementById("live");
const said = document.getElementById("said");
const LABELS = {
  restart: { rest: "Restart", busy: "Restarting…" },
  stop: { rest: "Stop", busy: "Stopping…" },
  accept: { rest: "Accept", busy: "Accepting…" },
};
let timer; // Set while the next question is due.
let asking = false;
let seen = new Date();

// Addresses are relative to the page, without a password that may stand in its own.
function address(path) {
  const url = new URL(path, location.href);
  url.username = url.password = url.search = url.hash = "";
  return url;
}

async function look() {
  clearTimeout(timer);
  if (asking || document.hidden) return;
  asking = true;
  try {
    const reply = await fetch(address("./"), { cache: "no-store", signal: AbortSignal.timeout(PATIENCE) });
    if (reply.status === 401) {
      lost("The token is no longer good. Reload the page to show another.");
    } else if (!reply.ok) {
      lost(`outlive answers with status ${reply.status}.`);
    } else {
      show(new DOMParser().parseFromString(await reply.text(), "text/html"));
      seen = new Date();
      root.classList.remove("lost");
      live.textContent = "Live: what you see is at most a few seconds old.";
    }
  } catch {
    lost(`outlive does not answer. What you see is from ${seen.toLocaleTimeString()}.`);
  }
  asking = false;
  timer = setTimeout(look, EVERY);
}

function lost(sentence) {
  root.classList.add("lost");
  if (live.textContent !== sentence) live.textContent = sentence;
}

function show(fresh) {
  document.title = fresh.title;
  const icon = (page) => page.querySelector("link[rel=icon]");
  if (icon(document).href !== icon(fresh).href) icon(document).href = icon(fresh).href;
  carry(document.querySelector("main"), fresh.querySelector("main"));
}

// Makes one element like another, in place: what has focus keeps it, and what a person has opened stays open.
function carry(old, fresh) {
  if (old.dataset.busy) return;
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  }
  let at = old.firstChild;
  for (const next of fresh.childNodes) {
    const like = counterpart(at, next);
    while (like && at !== like) at = drop(at);
    if (!like) {
      old.insertBefore(document.importNode(next, true), at);
    } else {
      if (next.nodeType === Node.ELEMENT_NODE) carry(like, next);
      else if (like.nodeValue !== next.nodeValue) like.nodeValue = next.nodeValue;
      at = like.nextSibling;
    }
  }
  while (at) at = drop(at);
}

// What is shown of an element so far: the one of its id, from here on; without an id, what stands here, if it is alike.
function counterpart(at, next) {
  if (!next.id) {
    const alike = at && !at.id && at.nodeName === next.nodeName && at.className === next.className;
    return alike ? at : null;
  }
  while (at && at.id !== next.id) at = at.nextSibling;
  return at;
}

function drop(node) {
  const next = node.nextSibling;
  node.remove();
  return next;
}

// What stops calls is asked for twice: a button that was pressed by mistake says so and waits a moment.
function armed(button) {
  if (button.dataset.action !== "stop" || button.classList.contains("armed")) return true;
  button.dataset.busy = "armed";
  button.classList.add("armed");
  button.textContent = "Press again to stop";
  tell("Stopping ends the sessions of its clients; calls in flight may finish. It starts again with the next call.");
  const disarm = () => {
    if (button.dataset.busy !== "armed") return;
    rest(button);
    tell("");
  };
  setTimeout(disarm, 6000);
  button.addEventListener("blur", disarm, { once: true });
  return false;
}

function rest(button) {
  delete button.dataset.busy;
  button.classList.remove("armed");
  button.removeAttribute("aria-disabled");
  button.textContent = LABELS[button.dataset.action].rest;
}

let forgetting;
function tell(sentence) {
  clearTimeout(forgetting);
  said.textContent = sentence;
  forgetting = setTimeout(() => { said.textContent = ""; }, 8000);
}

async function act(button) {
  if (button.dataset.busy === "asked" || !armed(button)) return;
  const { action, server, digest } = button.dataset;
  button.dataset.busy = "asked";
  button.setAttribute("aria-disabled", "true"); // Not `disabled`: that would take the focus away.
  button.textContent = LABELS[action].busy;
  try {
    const reply = await fetch(address(`servers/${encodeURIComponent(server)}/${action}`), {
      method: "POST",
      // Of what is accepted the page says which it was: a server may change once more at any time.
      headers: { "Outlive-Action": action, ...(digest && { "Outlive-Digest": digest }) },
      signal: AbortSignal.timeout(PATIENCE),
    });
    const answer = await reply.json();
    tell(`${server}: ${reply.ok ? answer.sentence : answer.error.message}`);
  } catch {
    tell(`${server}: outlive does not answer. Nothing may have been done.`);
  }
  rest(button);
  look();
}

root.classList.add("live");
document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-action]");
  if (button) act(button);
});
document.addEventListener("visibilitychange", look);
look();
