"use strict";
// Marks of patients; keys and answers of a pair, and zooming its pictures in step. Lists and verdicts are whole without it.
(function () {
  // Marks of patients.
  document.querySelectorAll(".marks button").forEach(function (button) {
    button.addEventListener("click", function () {
      var card = button.closest("li"), given = button.getAttribute("aria-pressed") !== "true";
      fetch("/run/" + card.parentNode.dataset.run + "/mark", {
        method: "POST", headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ label: card.dataset.label, group: card.dataset.group, mark: button.dataset.mark, given: given })
      }).then(function (answer) { return answer.json(); }).then(function (said) {
        if (said.error) { throw new Error(said.error); }
        button.setAttribute("aria-pressed", String(given));
      }).catch(function (error) {
        var told = document.getElementById("problem");
        told.textContent = "Not kept: " + (error.message || "the server does not answer");
        told.hidden = false;
      });
    });
  });

  var judge = document.getElementById("judge");
  if (!judge) { return; }
  var run = "/run/" + judge.dataset.run, busy = false;
  var problem = document.getElementById("problem"), why = document.getElementById("why");
  var reason = document.getElementById("reason"), by = document.getElementById("by");

  function go(address) { busy = true; window.location.replace(address); }
  function send(what, body) {
    if (busy) { return; }
    busy = true;
    fetch(run + what, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) })
      .then(function (answer) { return answer.json(); })
      .then(function (said) {
        busy = false;
        if (said.error) { throw new Error(said.error); }
        go(said.next);
      })
      .catch(function (error) {
        busy = false;
        problem.textContent = "Not kept: " + (error.message || "the server does not answer");
        problem.hidden = false;
      });
  }
  function answer(verdict) {
    sessionStorage.setItem("reviewer", by.value);
    send("/judge", { pair: judge.dataset.pair, verdict: verdict, by: by.value, reason: verdict === "dismiss" ? reason.value : "" });
  }
  // A dismissal asks why each time; whoever judges is asked for their name once in a session.
  function ask(verdict) {
    var dismissed = verdict === "dismiss";
    document.getElementById("why-title").textContent = dismissed ? "Dismiss: no copy" : "Confirm: a copy";
    document.getElementById("why-reason").hidden = !dismissed;
    reason.required = dismissed;
    document.getElementById("answer").value = verdict;
    document.getElementById("verb").textContent = dismissed ? "Dismiss" : "Confirm";
    why.showModal();
    (dismissed && sessionStorage.getItem("reviewer") ? reason : by).select();
  }

  var acts = {
    n: function () { go(judge.dataset.next); }, p: function () { go(judge.dataset.previous); },
    "+": function () { zoom(1.5); }, "=": function () { zoom(1.5); }, "-": function () { zoom(1 / 1.5); },
    "0": function () { scale = 1; x = y = 0; show(); }
  };
  if (why) {
    by.value = sessionStorage.getItem("reviewer") || by.value;
    acts.c = function () { if (sessionStorage.getItem("reviewer")) { answer("confirm"); } else { ask("confirm"); } };
    acts.d = function () { ask("dismiss"); };
    acts.u = function () { send("/undo", {}); };
    document.getElementById("cancel").addEventListener("click", function () { why.close(); });
    why.addEventListener("close", function () {
      if (why.returnValue) { answer(why.returnValue); }
      why.returnValue = "";
    });
  }
  document.addEventListener("keydown", function (event) {
    if (event.ctrlKey || event.metaKey || event.altKey || (why && why.open) || event.repeat) { return; }
    var act = acts[event.key];
    if (act) { event.preventDefault(); act(); }
  });
  [["confirm", "c"], ["dismiss", "d"], ["undo", "u"], ["next", "n"], ["previous", "p"]].forEach(function (pair) {
    var button = document.getElementById(pair[0]);
    if (button) { button.addEventListener("click", acts[pair[1]]); }
  });

  // One zoom and one place for all pictures of the pair, in shares of a pane.
  var panes = document.getElementById("panes"), pictures = panes.querySelectorAll(".pane img");
  var scale = 1, x = 0, y = 0, from = null;
  function show() {
    var most = (scale - 1) / 2;
    x = Math.max(-most, Math.min(most, x));
    y = Math.max(-most, Math.min(most, y));
    pictures.forEach(function (picture) {
      picture.style.transform = "translate(" + 100 * x + "%, " + 100 * y + "%) scale(" + scale + ")";
    });
    panes.classList.toggle("zoomed", scale > 1);
  }
  function zoom(times) { scale = Math.max(1, Math.min(16, scale * times)); show(); }
  panes.addEventListener("wheel", function (event) {
    if (!event.target.closest(".pane")) { return; }
    event.preventDefault();
    zoom(event.deltaY < 0 ? 1.25 : 0.8);
  }, { passive: false });
  panes.addEventListener("pointerdown", function (event) {
    var pane = event.target.closest(".pane");
    if (pane && scale > 1) { from = { x: event.clientX, y: event.clientY, side: pane.clientWidth }; pane.setPointerCapture(event.pointerId); }
  });
  panes.addEventListener("pointermove", function (event) {
    if (!from) { return; }
    x += (event.clientX - from.x) / from.side;
    y += (event.clientY - from.y) / from.side;
    from.x = event.clientX;
    from.y = event.clientY;
    show();
  });
  ["pointerup", "pointercancel"].forEach(function (end) { panes.addEventListener(end, function () { from = null; }); });

  var gain = document.getElementById("gain"), difference = document.getElementById("difference");
  if (gain) {
    var kept = sessionStorage.getItem("gain");
    if (kept) { gain.value = kept; }
    var amplify = function () {
      difference.style.filter = "brightness(" + gain.value + ")";
      document.getElementById("times").textContent = gain.value;
      sessionStorage.setItem("gain", gain.value);
    };
    gain.addEventListener("input", amplify);
    amplify();
  }
})();
