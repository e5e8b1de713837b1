// The little that a page cannot do without a script: tell the server our time zone, and "/" to search.
"use strict";
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
if (!document.cookie.split("; ").includes(`tga_zone=${zone}`)) {
  document.cookie = `tga_zone=${zone}; path=/; max-age=31536000; samesite=lax`;
}
document.addEventListener("keydown", (event) => {
  const writing = event.target.closest("input, textarea, select, [contenteditable]");
  if (event.key === "/" && !writing && !event.ctrlKey && !event.metaKey && !event.altKey) {
    const box = document.querySelector("[data-shortcut='/']");
    if (box) {
      event.preventDefault();
      box.focus();
      box.select();
    }
  }
});
