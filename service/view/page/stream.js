// The stream of server-sent events, which comes back by itself.
//
// `resync` is called when everything has to be asked for anew, `update` with each batch, `state` with "live" or "lost",
// and `refused` where the service answers with something else than a stream: it may wait for a token, for example.

const FIRST_WAIT = 500;
const LONGEST_WAIT = 8000;
// The service speaks at least every five seconds: after this long without a word the connection is dead.
const SILENCE = 15000;

export function follow({ resync, update, state, refused }) {
  let source = null;
  let wait = FIRST_WAIT;
  let heard = Date.now();
  let waiting = null;

  function open() {
    waiting = null;
    heard = Date.now();
    source = new EventSource("/v1/stream");
    source.addEventListener("hello", (event) => {
      heard = Date.now();
      wait = FIRST_WAIT;
      const hello = JSON.parse(event.data);
      state("live");
      if (!hello.is_resumed) resync(hello.counts);
    });
    source.addEventListener("resync", (event) => resync(JSON.parse(event.data).counts));
    source.addEventListener("update", (event) => {
      heard = Date.now();
      update(JSON.parse(event.data));
    });
    source.addEventListener("error", () => {
      state("lost");
      // a browser tries again by itself unless it was refused
      if (source.readyState === EventSource.CLOSED) again();
    });
  }

  function again() {
    source?.close();
    if (waiting !== null) return;
    waiting = setTimeout(async () => {
      await refused();
      open();
    }, wait);
    wait = Math.min(LONGEST_WAIT, 2 * wait);
  }

  setInterval(() => {
    if (Date.now() - heard > SILENCE && waiting === null) {
      state("lost");
      again();
    }
  }, 1000);
  open();
}
