"use strict";
// Sorting of tables, enlarged pictures closed by Escape, folded parts opened for print. The page is whole without it.
(function () {
  function sortBy(table, index, direction) {
    var body = table.tBodies[0];
    var rows = Array.prototype.slice.call(body.rows);
    rows.sort(function (a, b) {
      var x = a.cells[index], y = b.cells[index];
      var numeric = x.classList.contains("num");
      if (numeric) {
        // a cell without a value stays at the end, whichever way the column is sorted
        if (!x.dataset.v || !y.dataset.v) { return (x.dataset.v ? 0 : 1) - (y.dataset.v ? 0 : 1); }
        return direction * (Number(x.dataset.v) - Number(y.dataset.v));
      }
      return direction * x.textContent.localeCompare(y.textContent, undefined, { numeric: true });
    });
    rows.forEach(function (row) { body.appendChild(row); });
  }

  document.querySelectorAll("table.sortable").forEach(function (table) {
    Array.prototype.forEach.call(table.tHead.rows[0].cells, function (head, index) {
      if (head.tagName !== "TH") { return; }
      var button = document.createElement("button");
      button.type = "button";
      button.append.apply(button, Array.prototype.slice.call(head.childNodes));
      head.appendChild(button);
      button.addEventListener("click", function () {
        var first = head.classList.contains("num") ? "descending" : "ascending";
        var other = first === "ascending" ? "descending" : "ascending";
        var next = head.getAttribute("aria-sort") === first ? other : first;
        Array.prototype.forEach.call(table.tHead.rows[0].cells, function (cell) { cell.removeAttribute("aria-sort"); });
        head.setAttribute("aria-sort", next);
        sortBy(table, index, next === "ascending" ? 1 : -1);
      });
    });
  });

  document.addEventListener("keydown", function (event) {
    if (event.key === "Escape") {
      document.querySelectorAll(".zoom input:checked").forEach(function (box) { box.checked = false; });
    }
  });

  var opened = [];
  window.addEventListener("beforeprint", function () {
    opened = Array.prototype.filter.call(document.querySelectorAll("details:not(.unprinted)"), function (d) { return !d.open; });
    opened.forEach(function (d) { d.open = true; });
  });
  window.addEventListener("afterprint", function () {
    opened.forEach(function (d) { d.open = false; });
  });
})();
