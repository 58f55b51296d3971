// got (11): one order under one key, sent again until its answer is there.
//
//     node got_client.cjs URL KEY FILE [SECONDS]
//
// FILE holds the order as JSON; SECONDS bound each attempt. Prints status, marks and body. With
// Debian's node-got beside another Node: NODE_PATH=/usr/share/nodejs node got_client.cjs …
const { readFileSync } = require('node:fs');
const got = require('got');

const retry = {
  limit: 4, // repeats, so at most five attempts
  methods: ['POST'], // not among got's own: the key is what makes it safe
  statusCodes: [409, 429, 502, 503, 504],
  maxRetryAfter: 30_000, // else a Retry-After above the time-out ends the repeats
  calculateDelay({ error, computedValue }) {
    const { headers, body } = error.response ?? {};
    if (headers?.['content-type']?.startsWith('application/problem+json')) {
      if (JSON.parse(body).retryable !== true) return 0; // the gateway says it itself
    }
    return computedValue;
  },
};

const [url, key, file, seconds = '15'] = process.argv.slice(2);
const options = {
  headers: { 'Idempotency-Key': key, 'Content-Type': 'application/json' },
  body: readFileSync(file), // a stream could be sent only once
  timeout: { request: seconds * 1000 },
  throwHttpErrors: false, // after the last repeat its answer is given back, as it is
  retry,
};

got.post(url, options).then(
  (answer) => {
    const mark = (name) => answer.headers[name] ?? '';
    const marks = `replayed=${mark('idempotent-replayed')} effect=${mark('steadfast-effect')}`;
    process.stdout.write(`HTTP ${answer.statusCode} ${marks}\n${answer.body}`);
  },
  (error) => {
    console.error(`no answer (${error.message}); keep the key, and send it again later`);
    process.exitCode = 1;
  },
);
