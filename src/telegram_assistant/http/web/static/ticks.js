// A tick above a list ticks all of it.
"use strict";
document.addEventListener("change", (event) => {
  const all = event.target.closest("[data-all]");
  if (!all) return;
  for (const one of all.closest("[data-ticks]").querySelectorAll("input[type=checkbox]:not([disabled])")) one.checked = all.checked;
});
