// fetch with a loop of one's own: one order under one key, sent again until its answer is there.
//
//     node fetch_client.mjs URL KEY FILE [SECONDS]
//
// FILE holds the order as JSON; SECONDS bound each attempt. Prints status, marks and body.
import { readFile } from 'node:fs/promises';
import { setTimeout as pause } from 'node:timers/promises';

const ATTEMPTS = 5;

// Whether the same thing again, under the same key, is sensible.
function again(answer, text) {
  if (answer.headers.get('content-type')?.startsWith('application/problem+json')) {
    return JSON.parse(text).retryable === true; // the gateway says it itself
  }
  return [429, 502, 503, 504].includes(answer.status);
}

function wait(attempt, answer) {
  const after = answer?.headers.get('retry-after') ?? '';
  return /^\d+$/.test(after) ? Number(after) * 1000 : Math.random() * 200 * 2 ** attempt;
}

async function order(url, key, body, seconds) {
  for (let attempt = 1, last; ; attempt += 1) {
    let answer;
    try {
      answer = await fetch(url, {
        method: 'POST',
        headers: { 'Idempotency-Key': key, 'Content-Type': 'application/json' },
        body,
        signal: AbortSignal.timeout(seconds * 1000),
      });
      // The body is part of the answer: reading it can fail, and is inside the loop.
      last = [answer, await answer.text()];
      if (!again(...last)) return last;
    } catch (error) {
      last = undefined;
      console.error(`attempt ${attempt}: ${error.message}: ${error.cause?.message ?? ''}`);
    }
    if (attempt === ATTEMPTS) return last;
    await pause(wait(attempt, answer));
  }
}

const [url, key, file, seconds = '15'] = process.argv.slice(2);
const told = await order(url, key, await readFile(file), Number(seconds));
if (told === undefined) {
  console.error('no answer; keep the key, and send it again later');
  process.exitCode = 1;
} else {
  const [answer, text] = told;
  const mark = (name) => answer.headers.get(name) ?? '';
  const marks = `replayed=${mark('idempotent-replayed')} effect=${mark('steadfast-effect')}`;
  process.stdout.write(`HTTP ${answer.status} ${marks}\n${text}`);
}
