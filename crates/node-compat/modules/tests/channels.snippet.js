import { MessageChannel as M, BroadcastChannel as B, receiveMessageOnPort, setEnvironmentData, getEnvironmentData } from "node:worker_threads";

const attempt = (body) => { try { return body(); } catch (error) { return `${error.name} ${error.code}: ${error.message}`; } };
const settled = () => new Promise((resolve) => setTimeout(resolve, 20));

console.log(M === MessageChannel, B === BroadcastChannel, Object.prototype.toString.call(new MessageChannel().port1), attempt(() => new MessagePort()));
{
  const { port1, port2 } = new MessageChannel();
  const told = { a: [1], when: new Date(0) };
  port1.postMessage(told);
  told.a.push(2);
  port1.postMessage("second");
  console.log("before a listener", receiveMessageOnPort(port2), receiveMessageOnPort(port2), receiveMessageOnPort(port2));
  port2.onmessage = (event) => console.log("onmessage", event.type, event.data, event.ports.length, event.target === port2);
  port1.postMessage({ n: 1 });
  port1.postMessage({ n: 2 });
  Promise.resolve().then(() => console.log("a microtask is first"));
  await settled();
  port1.on("message", (data) => console.log("on", data));
  port1.once("message", (data) => console.log("once", data));
  port2.postMessage(1);
  port2.postMessage(2);
  await settled();
  console.log(attempt(() => port1.postMessage(Symbol("s"))).replace(/^.*?: /, ""));
  const bytes = new Uint8Array([1, 2, 3]);
  port1.postMessage(bytes, [bytes.buffer]);
  console.log("moved", bytes.length);
  await settled();
  const inner = new MessageChannel();
  port1.postMessage("a port", [inner.port2]);
  port2.onmessage = (event) => { console.log(event.data, event.ports.length); event.ports[0].postMessage("through it"); };
  inner.port1.on("message", (data) => console.log("inner", data));
  await settled();
  port2.addEventListener("close", () => console.log("closed"));
  port1.close();
  await settled();
  port2.postMessage("nobody");
  inner.port1.close();
}
{
  const [one, two, other] = [new BroadcastChannel("x"), new BroadcastChannel("x"), new BroadcastChannel("y")];
  for (const [name, channel] of Object.entries({ one, two, other })) channel.onmessage = (event) => console.log(name, event.data);
  one.postMessage({ hello: 1 });
  await settled();
  two.close();
  console.log(attempt(() => two.postMessage(1)).split(":")[0], one.name);
  one.close();
  other.close();
}
setEnvironmentData("k", { v: 1 });
console.log(getEnvironmentData("k"), getEnvironmentData("none"));
