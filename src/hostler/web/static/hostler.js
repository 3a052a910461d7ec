// What pages have beyond HTML: live regions, dialogs for questions, keys. Everything works without it, only not by itself.
"use strict";

(() => {
  const body = document.body;

  // -- live: the server says that something is new; regions with hx-trigger="news from:body" fetch themselves again.

  const lamp = document.getElementById("live");
  let stream = null;
  let isOld = false; // something may have happened while we did not listen
  let isDue = false; // something happened while a question was open
  let timer = 0;
  let asked = 0;
  let calmUntil = 0;

  const show = (isOn) => {
    if (!lamp) return;
    lamp.hidden = false;
    lamp.className = isOn ? "live on" : "live off";
    lamp.textContent = isOn ? "live" : "not live";
  };

  // -- a lost server: pages say how old they are until it answers again. While the stream is open and refreshes work,
  // a page is current; the server sends an event every 5 s at least.

  const stale = document.getElementById("stale");
  const age = document.getElementById("stale-age");
  const SILENT_MS = 16000; // three events did not come
  const PATIENCE_MS = 1000; // a page that is being left is no lost server
  let currentAt = Date.now();
  let triedAt = 0; // when the stream was asked for
  let isBroken = false; // a refresh failed, and none succeeded since
  let retry = 0; // the next refresh after a failed one; a single one, or a server that is down gets more and more
  let losing = 0;
  let aging = 0;

  const showAge = () => {
    const seconds = Math.round((Date.now() - currentAt) / 1000);
    const minutes = Math.floor(seconds / 60);
    age.textContent = seconds < 120 ? `${seconds} s old` : minutes < 120 ? `${minutes} min old` : `${Math.floor(minutes / 60)} h old`;
  };

  const lose = () => {
    if (!stale || losing || aging) return;
    losing = setTimeout(() => {
      losing = 0;
      showAge();
      stale.hidden = false;
      aging = setInterval(showAge, 1000);
    }, PATIENCE_MS);
  };

  const hear = () => {
    if (isBroken) return;
    currentAt = Date.now();
    clearTimeout(losing);
    clearInterval(aging);
    losing = aging = 0;
    if (stale) stale.hidden = true;
  };

  // A connection may be dead without an error, for example when the network is cut.
  setInterval(() => {
    if (!stream || document.hidden || Date.now() - Math.max(currentAt, triedAt) < SILENT_MS) return;
    show(false);
    lose();
    stream.close();
    stream = null;
    isOld = true;
    listen();
  }, SILENT_MS / 4);

  const isBusy = () => document.hidden || document.querySelector("dialog[open]") !== null;

  // A page that takes long to make is fetched less often: a tenth of the server's time at most goes to one viewer.
  const refresh = () => {
    isDue = isBusy();
    if (isDue || timer) return;
    timer = setTimeout(() => {
      timer = 0;
      isDue = isBusy();
      if (isDue) return;
      asked = performance.now();
      htmx.trigger(body, "news");
    }, Math.max(calmUntil - performance.now(), 0));
  };
  body.addEventListener("htmx:afterRequest", (event) => {
    // After a swap the element of the event is a parent: the region itself has been replaced.
    if (event.detail.requestConfig.elt.id !== "region") return;
    isBroken = !event.detail.successful;
    if (isBroken) {
      lose();
      if (!retry) {
        retry = setTimeout(() => {
          retry = 0;
          refresh();
        }, 5000);
      }
      return;
    }
    hear();
    const now = performance.now();
    calmUntil = now + 9 * (now - asked);
  });

  // Hidden pages hang up: browsers keep only a few connections to one server.
  const listen = () => {
    if (stream || document.hidden || !body.dataset.live) return;
    const mine = new EventSource(body.dataset.live);
    stream = mine;
    triedAt = Date.now();
    mine.addEventListener("open", () => {
      show(true);
      hear();
      if (isOld) refresh();
      isOld = false;
    });
    mine.addEventListener("beat", hear);
    mine.addEventListener("news", () => {
      hear();
      refresh();
    });
    mine.addEventListener("over", () => location.reload());
    mine.addEventListener("error", () => {
      show(false);
      isOld = true;
      if (mine.readyState !== EventSource.CLOSED) {
        lose();
      } else if (stream === mine) {
        // The server, or a proxy before it, rejected the stream: whether the page can be had is seen by fetching it.
        stream = null;
        refresh();
        setTimeout(listen, 5000);
      }
    });
  };

  const hangUp = () => {
    if (stream) stream.close();
    stream = null;
    isOld = true;
  };

  document.addEventListener("visibilitychange", () => (document.hidden ? hangUp() : listen()));
  window.addEventListener("pagehide", hangUp);
  window.addEventListener("pageshow", listen);

  // Where we must log in again, or what the page is about has gone, the page itself says so; a link is followed.
  body.addEventListener("htmx:responseError", (event) => {
    const { elt, xhr } = event.detail;
    if (elt.href) location.assign(elt.href);
    else if (xhr.status === 401 || xhr.status === 404) location.reload();
  });

  // What is open stays open when its region is fetched again.
  const opened = new Set();
  body.addEventListener("toggle", (event) => {
    const id = event.target.id;
    if (!id || event.target.tagName !== "DETAILS") return;
    if (event.target.open) opened.add(id); else opened.delete(id);
  }, true);
  body.addEventListener("htmx:afterSwap", () => {
    for (const id of opened) {
      const found = document.getElementById(id);
      if (found) found.open = true;
    }
    rove();
  });

  // -- questions: a link to a page with a form is shown as a dialog.

  const dialog = document.getElementById("dialog");
  body.addEventListener("htmx:afterSettle", (event) => {
    if (event.target !== dialog || dialog.open) return;
    dialog.showModal();
    const first = dialog.querySelector("input:not([type=hidden]), select, button");
    if (first) first.focus();
  });
  if (dialog) {
    dialog.addEventListener("click", (event) => {
      const isOutside = event.target === dialog;
      if (isOutside || event.target.closest("[data-close]")) {
        event.preventDefault();
        dialog.close();
      }
    });
    dialog.addEventListener("close", () => {
      dialog.replaceChildren();
      if (isDue) refresh();
    });
  }

  // -- forms: who clicks twice means once. A form that was sent can be sent again when its page is shown again, or after
  // a while, should the browser have given up.

  const sent = new Set();
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.method !== "post") return;
    if (sent.has(form)) event.preventDefault();
    sent.add(form);
    setTimeout(() => sent.delete(form), 5000);
  });
  window.addEventListener("pageshow", () => sent.clear());

  // -- keys: "/" goes to the filter; arrows walk over the map, which is one stop for the tab key.

  const cells = () => [...document.querySelectorAll(".heat a")];

  const rove = () => {
    const all = cells();
    const at = Math.max(all.indexOf(document.activeElement), 0);
    all.forEach((cell, index) => { cell.tabIndex = index === at ? 0 : -1; });
    turn(all);
  };

  // Tips of cells at the right edge open to the left.
  const turn = (all) => {
    const right = document.documentElement.clientWidth;
    const isFar = all.map((cell) => cell.getBoundingClientRect().left + 260 > right);
    all.forEach((cell, index) => { cell.parentElement.classList.toggle("turn", isFar[index]); });
  };

  const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: "down", ArrowUp: "up", Home: "first", End: "last" };

  const walk = (event) => {
    const all = cells();
    const at = all.indexOf(document.activeElement);
    if (at < 0 || !(event.key in steps)) return;
    const first = all[0].parentElement.offsetTop;
    const columns = Math.max(all.findIndex((cell) => cell.parentElement.offsetTop > first), 1);
    const step = steps[event.key];
    const next = { down: at + columns, up: at - columns, first: 0, last: all.length - 1 }[step] ?? at + step;
    if (next < 0 || next >= all.length) return;
    event.preventDefault();
    all[at].tabIndex = -1;
    all[next].tabIndex = 0;
    all[next].focus();
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const isTyping = event.target.matches("input, select, textarea");
    const filter = document.querySelector("[data-filter]");
    if (event.key === "/" && filter && !isTyping) {
      event.preventDefault();
      filter.focus();
    } else if (!isTyping) {
      walk(event);
    }
  });
  window.addEventListener("resize", () => turn(cells()));

  rove();
  listen();
})();
