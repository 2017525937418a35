globalThis.ran = true;
exports.value = 1;
