// Streams, events and graphs.
#include "emulated.h"

namespace emu {

double now_ms() { return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

void Record::complete() {
  std::lock_guard<std::mutex> l(mu);
  ms = now_ms();
  done = true;
  cv.notify_all();
}
void Record::wait() {
  std::unique_lock<std::mutex> l(mu);
  cv.wait(l, [&] { return done; });
}
bool Record::query() {
  std::lock_guard<std::mutex> l(mu);
  return done;
}

static std::mutex streams_mu;
static std::vector<Stream *> streams;

Stream::Stream(unsigned seed) : Object(STREAM), random(seed) {
  thread = std::thread([this] { run(); });
  std::lock_guard<std::mutex> l(streams_mu);
  streams.push_back(this);
}

void Stream::end() {
  kind = GONE;
  {
    std::lock_guard<std::mutex> l(streams_mu);
    for (auto &s : streams)
      if (s == this) { s = streams.back(); streams.pop_back(); break; }
  }
  {
    std::lock_guard<std::mutex> l(mu);
    stop = true;
    ready.notify_all();
  }
  thread.join(); // after what is queued
}

void Stream::run() {
  static const long longest = setting("GPUSTALL_EMU_DELAY", 200);
  std::unique_lock<std::mutex> l(mu);
  for (;;) {
    ready.wait(l, [&] { return stop || !queue.empty(); });
    if (queue.empty()) return;
    Command c = std::move(queue.front());
    queue.pop_front();
    busy = true;
    // One command in three is late, by a time that grows up to the longest.
    long us = longest > 0 && random() % 3 == 0 ? (long)(random() % (unsigned long)longest) : 0;
    l.unlock();
    if (us) std::this_thread::sleep_for(std::chrono::microseconds(us));
    c();
    c = nullptr;
    l.lock();
    busy = false;
    if (queue.empty()) idle.notify_all();
  }
}

void Stream::push(Command c) {
  std::lock_guard<std::mutex> l(mu);
  if (capture) {
    capture->nodes.push_back(std::move(c));
    return;
  }
  queue.push_back(std::move(c));
  ready.notify_one();
}

void Stream::drain() {
  std::unique_lock<std::mutex> l(mu);
  idle.wait(l, [&] { return queue.empty() && !busy; });
}

bool Stream::empty() {
  std::lock_guard<std::mutex> l(mu);
  return queue.empty() && !busy;
}

Stream *stream(void *s) {
  if (s) return (Stream *)s;
  static Stream *zero = new Stream(99);
  return zero;
}

bool is_stream(void *s) { return !s || live(s, STREAM); }

void drain_all() {
  std::vector<Stream *> all;
  {
    std::lock_guard<std::mutex> l(streams_mu);
    all = streams;
  }
  for (auto s : all) s->drain();
}

int unsafe() {
  if (int r = check()) return r;
  return spoil();
}

int spoil() {
  std::lock_guard<std::mutex> l(streams_mu);
  for (auto s : streams)
    if (s->capture && s->capturer == std::this_thread::get_id()) {
      s->spoilt = true;
      return CAPTURE_UNSUPPORTED;
    }
  return OK;
}

} // namespace emu

using namespace emu;

API cuStreamCreate(void **s, unsigned) {
  if (int r = check()) return r;
  static std::atomic<unsigned> seed{(unsigned)setting("GPUSTALL_EMU_SEED", 1)};
  *s = new Stream(seed++);
  return OK;
}
API cuStreamCreateWithPriority(void **s, unsigned f, int) { return cuStreamCreate(s, f); }
API cuStreamDestroy_v2(void *s) {
  if (int r = check()) return r;
  if (!live(s, STREAM)) return INVALID_HANDLE;
  ((Stream *)s)->end();
  return OK;
}
API cuStreamSynchronize(void *s) {
  if (int r = unsafe()) return r;
  if (!is_stream(s)) return INVALID_HANDLE;
  stream(s)->drain();
  return check();
}
API cuStreamQuery(void *s) {
  if (int r = unsafe()) return r;
  if (!is_stream(s)) return INVALID_HANDLE;
  return stream(s)->empty() ? OK : NOT_READY;
}
API cuStreamWaitEvent(void *s, void *e, unsigned) {
  if (int r = check()) return r;
  if (!live(e, EVENT) || !is_stream(s)) return INVALID_HANDLE;
  Stream *st = stream(s);
  Event *ev = (Event *)e;
  if (st->capture && !ev->captured) return CAPTURE_ISOLATION;
  if (RecordPtr rec = ev->latest; rec && !st->capture) st->push([rec] { rec->wait(); });
  return OK;
}

API cuEventCreate(void **e, unsigned flags) {
  if (int r = check()) return r;
  Event *ev = new Event;
  ev->timed = !(flags & 2);
  *e = ev;
  return OK;
}
API cuEventDestroy_v2(void *e) {
  if (int r = check()) return r;
  if (!live(e, EVENT)) return INVALID_HANDLE;
  ((Event *)e)->kind = GONE; // Records under way live on
  ((Event *)e)->latest = nullptr;
  return OK;
}
API cuEventRecord(void *e, void *s) {
  if (int r = check()) return r;
  if (!live(e, EVENT) || !is_stream(s)) return INVALID_HANDLE;
  Stream *st = stream(s);
  Event *ev = (Event *)e;
  auto rec = std::make_shared<Record>();
  ev->latest = rec;
  ev->captured = st->capture != nullptr;
  st->push([rec] { rec->complete(); });
  return OK;
}
API cuEventQuery(void *e) {
  if (int r = check()) return r;
  if (!live(e, EVENT)) return INVALID_HANDLE;
  Event *ev = (Event *)e;
  if (ev->captured) return CAPTURED_EVENT;
  return !ev->latest || ev->latest->query() ? OK : NOT_READY;
}
API cuEventSynchronize(void *e) {
  if (int r = unsafe()) return r;
  if (!live(e, EVENT)) return INVALID_HANDLE;
  Event *ev = (Event *)e;
  if (ev->captured) return CAPTURED_EVENT;
  if (RecordPtr rec = ev->latest) rec->wait();
  return check();
}
API cuEventElapsedTime(float *ms, void *a, void *b) {
  if (int r = check()) return r;
  if (!live(a, EVENT) || !live(b, EVENT)) return INVALID_HANDLE;
  Event *x = (Event *)a, *y = (Event *)b;
  if (x->captured || y->captured || !x->latest || !y->latest || !x->timed || !y->timed) return INVALID_HANDLE;
  if (!x->latest->query() || !y->latest->query()) return NOT_READY;
  *ms = (float)(y->latest->ms - x->latest->ms);
  return OK;
}
API cuLaunchHostFunc(void *s, void (*fn)(void *), void *u) {
  if (int r = check()) return r;
  if (!is_stream(s)) return INVALID_HANDLE;
  stream(s)->push([fn, u] { fn(u); });
  return OK;
}

API cuStreamBeginCapture_v2(void *s, int) {
  if (int r = check()) return r;
  if (s && !live(s, STREAM)) return INVALID_HANDLE;
  Stream *st = stream(s);
  if (!s || st->capture) return ILLEGAL_STATE;
  std::lock_guard<std::mutex> l(st->mu);
  st->capture = std::make_unique<Graph>();
  st->spoilt = false;
  st->capturer = std::this_thread::get_id();
  return OK;
}
API cuStreamEndCapture(void *s, void **g) {
  if (int r = check()) return r;
  if (!live(s, STREAM)) return INVALID_HANDLE;
  Stream *st = stream(s);
  std::lock_guard<std::mutex> l(st->mu);
  *g = nullptr;
  if (!st->capture) return ILLEGAL_STATE;
  if (st->capturer != std::this_thread::get_id()) return CAPTURE_WRONG_THREAD;
  auto graph = std::move(st->capture);
  if (st->spoilt) return CAPTURE_INVALIDATED;
  *g = graph.release();
  return OK;
}
API cuStreamIsCapturing(void *s, int *v) {
  if (int r = check()) return r;
  *v = stream(s)->capture ? 1 : 0;
  return OK;
}

namespace {
// What is launched outlives its handle.
struct Exec : Object {
  explicit Exec(const Graph &g) : Object(EXEC), graph(std::make_shared<Graph>(g)) {}
  std::shared_ptr<Graph> graph;
};
} // namespace

API cuGraphInstantiateWithFlags(void **x, void *g, unsigned long long flags) {
  if (int r = unsafe()) return r;
  if (!live(g, GRAPH)) return INVALID_HANDLE;
  if (flags & ~15ull) return INVALID_VALUE;
  *x = new Exec(*(Graph *)g);
  return OK;
}
API cuGraphDestroy(void *g) {
  if (!live(g, GRAPH)) return INVALID_HANDLE;
  ((Graph *)g)->kind = GONE;
  ((Graph *)g)->nodes.clear();
  return OK;
}
API cuGraphExecDestroy(void *x) {
  if (!live(x, EXEC)) return INVALID_HANDLE;
  ((Exec *)x)->kind = GONE;
  ((Exec *)x)->graph = nullptr; // replays under way hold it
  return OK;
}
API cuGraphUpload(void *, void *) { return check(); }
API cuGraphLaunch(void *x, void *s) {
  if (int r = check()) return r;
  if (!live(x, EXEC) || !is_stream(s)) return INVALID_HANDLE;
  auto graph = ((Exec *)x)->graph;
  stream(s)->push([graph] {
    for (auto &n : graph->nodes) n();
  });
  return OK;
}
