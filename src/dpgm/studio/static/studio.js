// What a page can do without this: everything. This redraws figures while epsilon moves, follows a run, and takes a
// file that is dropped.
const parsed = async (address, headers = {}) =>
  new DOMParser().parseFromString(await (await fetch(address, { headers })).text(), "text/html");

function swap(id, page) {
  const here = document.getElementById(id), there = page.getElementById(id);
  if (here && there) here.replaceChildren(...there.childNodes);
}

// -- forms: what was typed stays when an answer is refused -----------------------------------------------------------
document.addEventListener("submit", async (event) => {
  const sent = event.target, pressed = event.submitter;
  if (sent.method !== "post" || pressed?.formMethod === "get" || sent.enctype === "multipart/form-data") return;
  event.preventDefault();
  const values = new URLSearchParams(new FormData(sent, pressed));
  if (pressed) pressed.disabled = true;
  const reply = await fetch(pressed?.getAttribute("formaction") ?? sent.action, { method: "POST", body: values }).catch(() => null);
  if (pressed) pressed.disabled = false;
  if (reply?.ok && pressed?.dataset.stay) {  // what else was typed stays
    swap(sent.dataset.live, new DOMParser().parseFromString(await reply.text(), "text/html"));
    follow();
    return;
  }
  if (reply?.ok) { location.assign(reply.url); if (reply.url === location.href) location.reload(); return; }
  const page = reply && new DOMParser().parseFromString(await reply.text(), "text/html");
  const why = page?.querySelector(".alarm")?.textContent ?? page?.body.textContent ?? "The studio does not answer; is it still running?";
  document.querySelector(".refused")?.remove();
  const alarm = Object.assign(document.createElement("p"), { className: "alarm refused", role: "alert", textContent: why });
  document.querySelector("h1").after(alarm);
  alarm.scrollIntoView({ block: "center" });
});

// -- budget: the figures follow the slider ---------------------------------------------------------------------------
const form = document.querySelector("form[data-live]");
if (form && form.elements.epsilon) {
  const typed = form.elements.epsilon, slide = document.getElementById("slide");
  const LEAST = 0.1, MOST = 8;
  const toSlide = (epsilon) => 100 * Math.log(epsilon / LEAST) / Math.log(MOST / LEAST);
  const fromSlide = (place) => Number((LEAST * (MOST / LEAST) ** (place / 100)).toPrecision(2));
  let asked = 0, waiting = 0;
  const redraw = async () => {
    const epsilon = Number(typed.value), turn = ++asked;
    if (!(epsilon > 0)) return;
    const address = `${location.pathname}?epsilon=${epsilon}`;
    const page = await parsed(address);
    if (turn !== asked) return;
    swap(form.dataset.live, page);
    document.querySelector(".stops").replaceChildren(...page.querySelector(".stops").childNodes);
    history.replaceState(null, "", address);
  };
  const soon = () => { clearTimeout(waiting); waiting = setTimeout(redraw, 120); };
  slide.hidden = false;
  slide.value = toSlide(Number(typed.value) || 1);
  slide.addEventListener("input", () => { typed.value = fromSlide(Number(slide.value)); soon(); });
  typed.addEventListener("input", () => { slide.value = toSlide(Number(typed.value) || LEAST); soon(); });
}

// -- runs: the page looks again every second, as long as somebody can see it --------------------------------------------
let following = false;
function follow() {
  const again = async () => {
    const panels = document.querySelector("form[data-live]")?.dataset.live;
    if (document.visibilityState === "visible" && (panels || !document.activeElement?.matches("input, select, textarea"))) {
      try {
        const page = await parsed(location.href, { "X-Studio-Poll": "1" });
        if (!page.body.dataset.changing) {
          if (panels) swap(panels, page); else location.reload();
          following = false;
          return;
        }
        const here = document.querySelector(".run"), there = page.querySelector(".run");
        if (here && there && here.innerHTML !== there.innerHTML) here.replaceChildren(...there.childNodes);
      } catch { /* the server is gone or asleep; ask again */ }
    }
    setTimeout(again, 1000);
  };
  if (!following) setTimeout(again, 1000);
  following = true;
}
if (document.body.dataset.changing) follow();

// -- data: a file that is dropped ------------------------------------------------------------------------------------
const drop = document.querySelector("form.drop");
if (drop) {
  for (const kind of ["dragenter", "dragover"]) drop.addEventListener(kind, (event) => { event.preventDefault(); drop.classList.add("over"); });
  drop.addEventListener("dragleave", () => drop.classList.remove("over"));
  drop.addEventListener("drop", (event) => {
    event.preventDefault();
    drop.elements.file.files = event.dataTransfer.files;
    drop.requestSubmit();
  });
}
