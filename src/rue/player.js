/* Play a policy of rue, step by step. One file, no dependencies, ES2015.
 *
 *     <script src="player.js">                                in a page: RuePlayer
 *     const RuePlayer = require("./player.js");               in Node
 *
 *     const player = new RuePlayer(source, random);           source: what rue.save wrote as .json (text or object) or
 *                                                             .rue (ArrayBuffer or bytes), or the arrays of RuePlayer.parse
 *     player.act()             the action to take: its name, or its number if there are no names
 *     player.observe(state)    what came of it, by name or number; returns the transitions that lead there
 *     player.reset()           a new episode
 *     player.state, player.stateNumber, player.node, player.done, player.steps
 *     player.options()         [{action, probability}] of the present node
 *     player.outcomes()        [{state, node, transition}] of the action that was drawn
 *     player.draw(chances)     observe an outcome drawn with these chances, one for each of outcomes(); returns it
 *
 * `random` returns numbers from [0, 1), Math.random unless given. An episode takes one for the start, one for each
 * action, and one for each outcome that is drawn, as rue.simulate does. docs/acting.md describes files and draws.
 * Whatever is wrong is an Error whose message is one line. The text may stand inside a script element of a page.
 */
(function (root, make) {
  "use strict";
  if (typeof module === "object" && module.exports) module.exports = make();
  else root.RuePlayer = make();
})(typeof self !== "undefined" ? self : this, function () {
  "use strict";

  const VERSION = 1, FILE_VERSION = 2, TOLERANCE = 1e-8;
  const GRAPH_ARRAYS = ["choice_ptr", "action", "trans_ptr", "successor"];
  const POLICY_ARRAYS = [
    "node_state", "entry_ptr", "choice", "weight", "next_ptr", "next_node", "start_node", "start_weight",
  ];

  function refuse(message) {
    throw new Error(message);
  }

  /* The number of the item that u in [0, 1) picks: the first whose cumulated chance is above it. */
  function pick(chances, u) {
    let last = -1;
    for (let i = 0; i < chances.length; i++) {
      if (!(chances[i] > 0)) continue;
      last = i;
      u -= chances[i];
      if (u < 0) break;
    }
    return last;
  }

  class RuePlayer {
    constructor(source, random) {
      this.policy = RuePlayer.parse(source);
      const graph = this.policy.graph;
      this.random = random || Math.random;
      this.names = graph.state_label || null;
      this.numbers = this.names && new Map(this.names.map((name, number) => [name, number]));
      this.begun = true;
      this.reset();
    }

    /* Return the arrays of a policy and of its graph, checked, from whatever form it has. */
    static parse(source) {
      if (source && source.checked) return source;
      let found = source;
      if (typeof source === "string") {
        try {
          found = JSON.parse(source);
        } catch (error) {
          refuse("it is no JSON (" + error.message + "); expected a policy as rue.save writes it");
        }
      }
      try {
        if (found instanceof ArrayBuffer) found = fromFile(new Uint8Array(found));
        else if (ArrayBuffer.isView(found)) {
          found = fromFile(new Uint8Array(found.buffer, found.byteOffset, found.byteLength));
        } else if (found && found.format === "rue policy") found = fromText(found);
        return checked(found);
      } catch (error) {
        if (!(error instanceof TypeError || error instanceof RangeError)) throw error;
        return refuse("the policy is damaged (" + error.message + "); expected one as rue.save writes it");
      }
    }

    /* Begin a new episode in the initial state. Called again before the first action, it changes nothing. */
    reset() {
      if (!this.begun) return;
      this.begun = false;
      this.node = this.policy.start_node[pick(this.policy.start_weight, this.random())];
      this.entry = -1;
      this.steps = 0;
    }

    get stateNumber() {
      return this.policy.node_state[this.node];
    }

    get state() {
      return this.nameOf(this.stateNumber);
    }

    get done() {
      const ptr = this.policy.graph.choice_ptr, state = this.stateNumber;
      return ptr[state] === ptr[state + 1];
    }

    /* The action to take. It is drawn once: until observe() or draw() the answer stays the same. */
    act() {
      if (this.entry < 0) {
        if (this.done) refuse("the player is at the goal " + this.state + "; expected reset() before it acts again");
        const first = this.policy.entry_ptr[this.node];
        this.entry = first + pick(this.options().map((option) => option.probability), this.random());
        this.begun = true;
      }
      return this.actionOf(this.entry);
    }

    /* Take the state that the action led to; return the transitions that lead there. */
    observe(state, outcome) {
      const reached = this.numberOf(state), found = [];
      this.outcomes().forEach((other, place) => {
        if (other.stateNumber === reached && (outcome === undefined || outcome === place)) found.push(other);
      });
      if (!found.length) refuse(this.taken() + " cannot lead to state " + this.nameOf(reached) + "; expected another");
      if (found.some((other) => other.node !== found[0].node)) {
        refuse(this.taken() + " leads to state " + this.nameOf(reached) + " by " + found.length +
               " outcomes that the policy tells apart; expected the number of the outcome");
      }
      this.move(found[0].node);
      return found.map((other) => other.transition);
    }

    options() {
      const policy = this.policy, found = [];
      for (let e = policy.entry_ptr[this.node]; e < policy.entry_ptr[this.node + 1]; e++) {
        found.push({ action: this.actionOf(e), probability: policy.weight[e] });
      }
      return found;
    }

    outcomes() {
      if (this.entry < 0) refuse("the player in state " + this.state + " has not acted; expected act() first");
      const policy = this.policy, first = policy.next_ptr[this.entry], found = [];
      const transition = policy.graph.trans_ptr[policy.choice[this.entry]];
      for (let j = first; j < policy.next_ptr[this.entry + 1]; j++) {
        const node = policy.next_node[j], stateNumber = policy.node_state[node];
        found.push({ state: this.nameOf(stateNumber), stateNumber, node, transition: transition + j - first });
      }
      return found;
    }

    /* Observe an outcome that is drawn with these chances; return it. */
    draw(chances) {
      const outcomes = this.outcomes();
      if (chances.length !== outcomes.length) {
        refuse("there are " + chances.length + " chances; expected one for each of " + outcomes.length + " outcomes");
      }
      const found = outcomes[pick(chances, this.random())];
      if (!found) refuse("no chance is above 0; expected those of the outcomes");
      this.move(found.node);
      return found;
    }

    move(node) {
      this.node = node;
      this.entry = -1;
      this.steps++;
    }

    nameOf(state) {
      return this.names ? this.names[state] : state;
    }

    numberOf(state) {
      const states = this.policy.graph.choice_ptr.length - 1;
      let number = state;
      if (typeof state === "string") {
        number = this.names ? this.numbers.get(state) : /^(0|[1-9][0-9]*)$/.test(state) ? Number(state) : undefined;
        if (number === undefined) refuse('unknown state "' + state + '"; expected the name of a state of the policy');
      }
      if (!Number.isInteger(number) || number < 0 || number >= states) {
        refuse("the state " + state + " is out of range; expected 0 to " + (states - 1));
      }
      return number;
    }

    actionOf(entry) {
      const graph = this.policy.graph, action = graph.action[this.policy.choice[entry]];
      return graph.action_label ? graph.action_label[action] : action;
    }

    taken() {
      return 'action "' + this.actionOf(this.entry) + '" of state ' + this.state;
    }
  }

  /* What a history says about K samples: weight_k times the probability of what was seen. Sums of logarithms, so that
   * nothing is rounded to zero. `rows(transition)` returns the K probabilities of a transition. */
  RuePlayer.Belief = class {
    constructor(rows, weight) {
      this.rows = rows;
      this.prior = Array.from(weight, Math.log);
      this.reset();
    }

    reset() {
      this.log = this.prior.map(() => 0);
    }

    /* Take what observe() returned; return whether some sample allows it. If none does, nothing changes. */
    update(transitions) {
      const sum = this.log.map(() => 0);
      for (const t of transitions) this.rows(t).forEach((chance, k) => { sum[k] += chance; });
      const after = this.log.map((log, k) => log + Math.log(sum[k]));
      if (Math.max(...after) === -Infinity) return false;
      this.log = after;
      return true;
    }

    get value() {
      let log = this.log.map((one, k) => one + this.prior[k]);
      if (Math.max(...log) === -Infinity) log = this.log;
      const most = Math.max(...log), part = log.map((one) => Math.exp(one - most));
      const total = part.reduce((sum, one) => sum + one, 0);
      return part.map((one) => one / total);
    }
  };

  function numbersByName(labels, count) {
    return new Map(Array.from({ length: labels ? labels.length : count }, (_, i) => [labels ? labels[i] : String(i), i]));
  }

  /* The arrays of a policy from its JSON. */
  function fromText(whole) {
    if (whole.version !== VERSION) {
      refuse("it has version " + whole.version + " of the format; expected version " + VERSION);
    }
    const graph = whole.graph, found = { graph };
    for (const name of POLICY_ARRAYS) found[name] = name.endsWith("_ptr") ? [0] : [];
    const states = numbersByName(graph.state_label, graph.choice_ptr.length - 1);
    const actions = numbersByName(graph.action_label, 1 + graph.action.reduce((a, b) => Math.max(a, b), -1));
    whole.nodes.forEach((node, place) => {
      if (node.node !== place) refuse("node " + node.node + " is in place " + place + "; expected nodes in order");
      const state = states.get(node.state);
      if (state === undefined) refuse('unknown state "' + node.state + '"; expected one of the graph');
      found.node_state.push(state);
      for (const entry of node.actions) {
        const action = actions.get(entry.action);
        let choice = graph.choice_ptr[state];
        while (choice < graph.choice_ptr[state + 1] && graph.action[choice] !== action) choice++;
        if (action === undefined || choice === graph.choice_ptr[state + 1]) {
          refuse("state " + node.state + ' has no action "' + entry.action + '"; expected one of the graph');
        }
        found.choice.push(choice);
        found.weight.push(entry.probability);
        for (const outcome of entry.next) found.next_node.push(outcome.node);
        found.next_ptr.push(found.next_node.length);
      }
      found.entry_ptr.push(found.choice.length);
    });
    for (const begin of whole.start) {
      found.start_node.push(begin.node);
      found.start_weight.push(begin.probability);
    }
    return found;
  }

  /* The arrays of a policy, or of the policy of a solution, from a .rue file: a zip without compression. */
  function fromFile(bytes) {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength), parts = new Map();
    let end = bytes.length - 22;
    while (end >= 0 && view.getUint32(end, true) !== 0x06054b50) end--;
    if (end < 0) refuse("it is no rue file; expected one as rue.save writes it");
    let place = view.getUint32(end + 16, true);
    for (let count = view.getUint16(end + 10, true); count > 0; count--) {
      const size = view.getUint32(place + 24, true), local = view.getUint32(place + 42, true);
      const length = view.getUint16(place + 28, true);
      const name = text(bytes.subarray(place + 46, place + 46 + length));
      const first = local + 30 + view.getUint16(local + 26, true) + view.getUint16(local + 28, true);
      const data = bytes.subarray(first, first + size);
      if (view.getUint16(place + 10, true) !== 0 || data.length !== size) refuse(name + " is compressed or cut off");
      if (checksum(data) !== view.getUint32(place + 16, true)) refuse("the checksum of " + name + " is wrong");
      parts.set(name, data);
      place += 46 + length + view.getUint16(place + 30, true) + view.getUint16(place + 32, true);
    }
    const header = parts.has("header.json") ? JSON.parse(text(parts.get("header.json"))) : {};
    if (header.format !== "rue") refuse("it is a file of another program; expected one as rue.save writes it");
    if (header.version !== FILE_VERSION) {
      refuse("it has version " + header.version + " of the format; expected version " + FILE_VERSION);
    }
    if (header.kind === "model") refuse("it holds a model; expected a policy or a solution");
    const array = (name) => (parts.has(name + ".npy") ? numbers(parts.get(name + ".npy"))
      : refuse("the array " + name + " is missing; expected it in the file"));
    const found = { graph: Object.assign({}, header.graph) };
    for (const name of GRAPH_ARRAYS) found.graph[name] = array(name);
    for (const name of POLICY_ARRAYS) found[name] = array("policy_" + name);
    return found;
  }

  /* Text in UTF-8. */
  function text(bytes) {
    let coded = "";
    for (let i = 0; i < bytes.length; i++) coded += "%" + (bytes[i] < 16 ? "0" : "") + bytes[i].toString(16);
    return decodeURIComponent(coded);
  }

  const TABLE = Array.from({ length: 256 }, (_, n) => {
    for (let bit = 0; bit < 8; bit++) n = n & 1 ? 0xedb88320 ^ (n >>> 1) : n >>> 1;
    return n;
  });

  function checksum(bytes) {
    let crc = -1;
    for (let i = 0; i < bytes.length; i++) crc = TABLE[(crc ^ bytes[i]) & 255] ^ (crc >>> 8);
    return (crc ^ -1) >>> 0;
  }

  /* The numbers of an array in numpy's format. */
  function numbers(bytes) {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const first = 10 + view.getUint16(8, true), header = text(bytes.subarray(10, first));
    const kind = (/'descr': '(.*?)'/.exec(header) || [])[1];
    const read = {
      "<i4": (at) => view.getInt32(at, true),
      "<i8": (at) => view.getUint32(at, true) + 4294967296 * view.getInt32(at + 4, true),
      "<f8": (at) => view.getFloat64(at, true),
    }[kind];
    if (!read || bytes[0] !== 0x93) refuse("an array holds " + kind + " values; expected <i4, <i8 or <f8");
    const width = Number(kind[2]), found = new Array((bytes.length - first) / width);
    for (let i = 0; i < found.length; i++) found[i] = read(first + i * width);
    return found;
  }

  /* The arrays, if they make a controller on their graph. */
  function checked(policy) {
    const graph = policy && policy.graph;
    if (!graph || !POLICY_ARRAYS.every((name) => policy[name])) {
      refuse("it is JSON of something else; expected a policy as rue.save writes it");
    }
    const states = graph.choice_ptr.length - 1, nodes = policy.node_state.length;
    const wrong = (name) => refuse(name + " of the policy does not fit its other arrays; expected a controller on " +
                                   states + " states");
    const within = (name, size) => {
      for (const one of policy[name]) if (!(Number.isInteger(one) && one >= 0 && one < size)) wrong(name);
    };
    const pointers = (name, ptr, length, end) => {
      if (ptr.length !== length + 1 || ptr[0] !== 0 || ptr[length] !== end) wrong(name);
      for (let i = 0; i < length; i++) if (!(ptr[i] <= ptr[i + 1])) wrong(name);
    };
    pointers("choice_ptr", graph.choice_ptr, states, graph.action.length);
    pointers("trans_ptr", graph.trans_ptr, graph.action.length, graph.successor.length);
    within("node_state", states);
    within("choice", graph.action.length);
    within("next_node", nodes);
    within("start_node", nodes);
    pointers("entry_ptr", policy.entry_ptr, nodes, policy.choice.length);
    pointers("next_ptr", policy.next_ptr, policy.choice.length, policy.next_node.length);
    if (policy.weight.length !== policy.choice.length) wrong("weight");
    for (let node = 0; node < nodes; node++) {
      const state = policy.node_state[node];
      let total = 0;
      for (let e = policy.entry_ptr[node]; e < policy.entry_ptr[node + 1]; e++) {
        const choice = policy.choice[e], first = graph.trans_ptr[choice], next = policy.next_ptr[e];
        if (choice < graph.choice_ptr[state] || choice >= graph.choice_ptr[state + 1]) wrong("choice");
        if (policy.next_ptr[e + 1] - next !== graph.trans_ptr[choice + 1] - first) wrong("next_ptr");
        for (let j = next; j < policy.next_ptr[e + 1]; j++) {
          if (policy.node_state[policy.next_node[j]] !== graph.successor[first + j - next]) wrong("next_node");
        }
        if (!(policy.weight[e] > 0)) wrong("weight");
        total += policy.weight[e];
      }
      const atGoal = graph.choice_ptr[state] === graph.choice_ptr[state + 1];
      if (!atGoal && !(Math.abs(total - 1) <= TOLERANCE)) wrong("weight");
    }
    const begin = policy.start_weight.reduce((sum, one) => sum + one, 0);
    if (policy.start_weight.length !== policy.start_node.length || !(Math.abs(begin - 1) <= TOLERANCE)) wrong("start_weight");
    if (policy.start_node.some((node) => policy.node_state[node] !== graph.initial)) wrong("start_node");
    return Object.assign({ checked: true }, policy);
  }

  return RuePlayer;
});
