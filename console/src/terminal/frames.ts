/** Binary frames: u8 type, u32 channel, u64 offset (big endian), payload. */

export const OUTPUT = 1;
export const INPUT = 2;
export const ACK = 3;
export const RESIZE = 4;
export const REPLAY_BEGIN = 5;
export const REPLAY_END = 6;
export const GAP = 7;
export const INPUT_ACK = 8;

const HEADER = 13;

export interface Frame {
  type: number;
  channel: number;
  offset: number;
  payload: Uint8Array;
}

export function encode(type: number, channel: number, offset: number, payload: Uint8Array = new Uint8Array()): Uint8Array<ArrayBuffer> {
  const frame = new Uint8Array(HEADER + payload.length);
  const view = new DataView(frame.buffer);
  view.setUint8(0, type);
  view.setUint32(1, channel);
  view.setBigUint64(5, BigInt(offset));
  frame.set(payload, HEADER);
  return frame;
}

export function decode(data: ArrayBuffer): Frame {
  const view = new DataView(data);
  return {
    type: view.getUint8(0),
    channel: view.getUint32(1),
    offset: Number(view.getBigUint64(5)),
    payload: new Uint8Array(data, HEADER),
  };
}

export function size(rows: number, cols: number): Uint8Array {
  const payload = new Uint8Array(4);
  new DataView(payload.buffer).setUint16(0, rows);
  new DataView(payload.buffer).setUint16(2, cols);
  return payload;
}
