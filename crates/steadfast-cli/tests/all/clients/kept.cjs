// A client that keeps its connection: sends its order, and once more when it is told to.
//
//     node kept.cjs fetch|got URL KEY FILE
const { readFileSync } = require('node:fs');
const { Agent } = require('node:http');

const [library, url, key, file] = process.argv.slice(2);
const headers = { 'Idempotency-Key': key, 'Content-Type': 'application/json' };
const body = readFileSync(file);

async function byFetch() {
  for (;;) {
    try {
      const answer = await fetch(url, { method: 'POST', headers, body });
      return [answer.status, answer.headers.get('idempotent-replayed'), await answer.text()];
    } catch (error) {
      console.error(error); // the same again, under the same key
    }
  }
}

const agent = { http: new Agent({ keepAlive: true }) };
async function byGot() {
  const options = { headers, body, agent, retry: { limit: 4, methods: ['POST'] } };
  const answer = await require('got').post(url, options);
  return [answer.statusCode, answer.headers['idempotent-replayed'], answer.body];
}

async function main() {
  const told = process.stdin[Symbol.asyncIterator]();
  for (let sending = 0; sending < 2; sending += 1) {
    const answer = await (library === 'got' ? byGot() : byFetch());
    process.stdout.write(`${answer.join(' ')}\n`);
    await told.next();
  }
  process.exit();
}

main();
