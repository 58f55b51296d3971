// Sends one order in a body without a length.
//
//     node shapes.cjs fetch|got URL KEY FILE
const { createReadStream } = require('node:fs');
const { Readable } = require('node:stream');

const [library, url, key, file] = process.argv.slice(2);
const headers = { 'IDEMPOTENCY-key': key, 'Content-Type': 'application/json' };

async function byFetch() {
  const body = Readable.toWeb(createReadStream(file));
  const answer = await fetch(url, { method: 'POST', headers, body, duplex: 'half' });
  return [await answer.text(), answer.status, answer.headers.get('idempotent-replayed')];
}

async function byGot() {
  const options = { headers, body: createReadStream(file), throwHttpErrors: false };
  const answer = await require('got').post(url, options);
  return [answer.body, answer.statusCode, answer.headers['idempotent-replayed']];
}

(library === 'got' ? byGot() : byFetch()).then((answer) => console.log(answer.join(' ')));
