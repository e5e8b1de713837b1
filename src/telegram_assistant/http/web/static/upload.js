// Sends the chosen files one by one as they are, shows how far it is, and then has them imported.
"use strict";
function send(address, file, told) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("PUT", address);
    for (const [name, value] of Object.entries(JSON.parse(document.body.getAttribute("hx-headers") || "{}"))) {
      request.setRequestHeader(name, value);
    }
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.upload.addEventListener("progress", (event) => told(event.loaded));
    request.addEventListener("load", () => (request.status < 300 ? resolve() : reject(new Error(request.responseText))));
    request.addEventListener("error", () => reject(new Error("")));
    request.send(file);
  });
}
document.addEventListener("submit", async (event) => {
  const form = event.target.closest("form[data-upload]");
  if (!form) return;
  event.preventDefault();
  const [button, progress, refused] = ["button", "[data-progress]", "[data-refused]"].map((one) => form.querySelector(one));
  const files = [...form.querySelector("input[type=file]").files];
  const total = files.reduce((sum, file) => sum + file.size, 0) || 1;
  let sent = 0;
  button.disabled = true;
  progress.hidden = false;
  refused.hidden = true;
  try {
    for (const file of files) {
      const address = `/import/files/${form.dataset.upload}/${encodeURIComponent(file.name)}`;
      await send(address, file, (done) => { progress.querySelector("progress").value = (100 * (sent + done)) / total; });
      sent += file.size;
    }
    const values = Object.fromEntries(new FormData(form));
    await htmx.ajax("POST", `/import/${form.dataset.upload}`, { source: form, target: "#import", values });
  } catch (error) {
    refused.textContent = error.message || refused.dataset.lost;
    refused.hidden = false;
  }
  button.disabled = false;
  progress.hidden = true;
});
