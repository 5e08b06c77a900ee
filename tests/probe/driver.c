/* A made-up libcuda, with cublasLt and NVML in it: no kernel runs, every call moves the clock of a made-up H200.
 *
 * Times follow the forms that the probe fits, so that a test knows what must come out. Environment variables make it ail:
 * see `ail` and its callers. Built by tests/probe/main.rs; -DCUT_SHORT leaves almost all symbols out. */
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int Result;
typedef void *Any;
typedef unsigned int u32;

static long long ail(const char *name, long long well) {
    const char *text = getenv(name);
    return text ? atoll(text) : well;
}

Result cuInit(u32 flags) { return (Result)ail("MOCK_CUINIT", 0); }

#ifndef CUT_SHORT
Result cuDriverGetVersion(int *version) { *version = (int)ail("MOCK_DRIVER", 13000); return 0; }
Result cuGetErrorName(int code, const char **name) { *name = code == 719 ? "CUDA_ERROR_LAUNCH_FAILED" : "MOCK_ERROR"; return 0; }
Result cuGetErrorString(int code, const char **text) { *text = "made up"; return 0; }
/* NVRTC 13 asks whatever libcuda is loaded. */
Result cuGetExportTable(const void **table, const void *id) { *table = NULL; return 500; }

/* ---- the clock, in microseconds */
static double now_us, captured_us;
static int is_capturing;
static uint64_t noise = 88172645463325252ull;
static void spend(double us) {
    noise ^= noise << 13; noise ^= noise >> 7; noise ^= noise << 17;
    us *= 1 + 0.01 * ((double)(noise >> 11) / 9007199254740992.0 - 0.5);
    if (is_capturing) captured_us += us; else now_us += us;
}

/* ---- devices */
Result cuDeviceGetCount(int *count) { *count = (int)ail("MOCK_GPUS", 1); return 0; }
Result cuDeviceGet(int *device, int number) { *device = number; return 0; }
Result cuDeviceGetName(char *name, int bytes, int device) {
    const char *text = getenv("MOCK_NAME");
    snprintf(name, (size_t)bytes, "%s", text ? text : "NVIDIA H200");
    return 0;
}
Result cuDeviceGetUuid_v2(void *uuid, int device) { memset(uuid, 7, 16); return 0; }
Result cuDeviceGetPCIBusId(char *text, int bytes, int device) { snprintf(text, (size_t)bytes, "0000:0%d:00.0", device); return 0; }
Result cuDeviceGetAttribute(int *value, int attribute, int device) {
    switch (attribute) {
    case 75: *value = (int)ail("MOCK_SM", 9); break; /* major */
    case 76: *value = 0; break;
    case 16: *value = 132; break;
    case 38: *value = 8 << 20; break; /* L2 */
    default: *value = 1;
    }
    return 0;
}
Result cuDevicePrimaryCtxRetain(Any *context, int device) { *context = (Any)(intptr_t)(device + 1); return (Result)ail("MOCK_OPEN", 0); }
Result cuDevicePrimaryCtxRelease_v2(int device) { return 0; }
static Any current;
Result cuCtxSetCurrent(Any context) { current = context; return 0; }
Result cuCtxGetCurrent(Any *context) { *context = current; return 0; }
Result cuCtxSynchronize(void) { return 0; }
Result cuCtxEnablePeerAccess(Any context, u32 flags) { return 0; }

/* ---- memory */
static uint64_t next = 0x700000000000ull, taken;
Result cuMemGetInfo_v2(size_t *free_bytes, size_t *all) { *all = 150754820096u; *free_bytes = (size_t)ail("MOCK_FREE", 149000000000ll); return 0; }
Result cuMemAlloc_v2(uint64_t *at, size_t bytes) {
    taken += bytes;
    if ((long long)taken > ail("MOCK_ROOM", 1ll << 50)) return 2; /* out of memory */
    *at = next;
    next += (bytes + 511) / 512 * 512;
    return 0;
}
Result cuMemFree_v2(uint64_t at) { return 0; }
Result cuMemHostAlloc(Any *at, size_t bytes, u32 flags) { *at = malloc(bytes); return *at ? 0 : 2; }
Result cuMemFreeHost(Any at) { free(at); return 0; }
Result cuMemHostGetDevicePointer_v2(uint64_t *at, Any host, u32 flags) { *at = (uint64_t)(uintptr_t)host; return 0; }
static u32 last_word;
Result cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, Any stream) {
    if (bytes >= 4 && bytes <= 4096) last_word = *(const u32 *)from;
    spend(7 + (double)bytes / 5.5e4);
    return 0;
}
Result cuMemcpyDtoHAsync_v2(Any to, uint64_t from, size_t bytes, Any stream) { spend(7 + (double)bytes / 5.3e4); return 0; }
Result cuMemcpyPeerAsync(uint64_t to, Any there, uint64_t from, Any here, size_t bytes, Any stream) { spend(8 + (double)bytes / 3.8e5); return 0; }

/* ---- streams, events, graphs */
Result cuStreamCreate(Any *stream, u32 flags) { *stream = (Any)2; return 0; }
Result cuStreamDestroy_v2(Any stream) { return 0; }
Result cuStreamSynchronize(Any stream) { return 0; }
Result cuStreamWaitEvent(Any stream, Any event, u32 flags) { return 0; }
Result cuEventCreate(Any *event, u32 flags) { *event = calloc(1, sizeof(double)); return 0; }
Result cuEventDestroy_v2(Any event) { free(event); return 0; }
Result cuEventRecord(Any event, Any stream) { *(double *)event = now_us; return 0; }
Result cuEventSynchronize(Any event) { return 0; }
Result cuEventElapsedTime_v2(float *ms, Any a, Any b) { *ms = (float)((*(double *)b - *(double *)a) * 1e-3); return 0; }
Result cuStreamBeginCapture_v2(Any stream, int mode) { is_capturing = 1; captured_us = 0; return 0; }
Result cuStreamEndCapture(Any stream, Any *graph) {
    is_capturing = 0;
    *graph = malloc(sizeof(double));
    *(double *)*graph = captured_us;
    return 0;
}
Result cuGraphInstantiateWithFlags(Any *executable, Any graph, unsigned long long flags) {
    *executable = malloc(sizeof(double));
    *(double *)*executable = *(double *)graph;
    return 0;
}
Result cuGraphUpload(Any executable, Any stream) { return 0; }
Result cuGraphLaunch(Any executable, Any stream) { spend(*(double *)executable); return 0; }
Result cuGraphExecDestroy(Any executable) { free(executable); return 0; }
Result cuGraphDestroy(Any graph) { free(graph); return 0; }

/* ---- kernels */
Result cuModuleLoadData(Any *module, const void *image) {
    const char *text = image;
    int is_known = !memcmp(text, "\177ELF", 4) || !strncmp(text, "// kernels.cu", 13);
    *module = (Any)3;
    return is_known ? 0 : 200;
}
Result cuModuleUnload(Any module) { return 0; }
Result cuModuleGetFunction(Any *function, Any module, const char *name) { *function = strdup(name); return 0; }
static uint64_t wide(Any *arguments, int i) { return *(uint64_t *)arguments[i]; }
static u32 word(Any *arguments, int i) { return *(u32 *)arguments[i]; }
static double kernel_us(const char *name, u32 x, u32 y, u32 z, Any *arguments) {
    static uint64_t last_read;
    if (!strcmp(name, "bw_read")) {
        double bytes = 16.0 * (double)wide(arguments, 1);
        int is_warm = wide(arguments, 0) == last_read && bytes < 6e6;
        last_read = wide(arguments, 0);
        return 2.1 + bytes / (is_warm ? 7e6 : 4.22e6);
    }
    if (!strcmp(name, "bw_write")) return 2.1 + 16.0 * (double)wide(arguments, 1) / 4.05e6;
    if (!strcmp(name, "bw_copy")) return 2.1 + 32.0 * (double)wide(arguments, 2) / 4.3e6;
    if (!strcmp(name, "bw_triad")) return 2.1 + 48.0 * (double)wide(arguments, 4) / 4.31e6;
    if (!strcmp(name, "ptr_chase")) return 0.5 * word(arguments, 1);
    if (!strcmp(name, "attn_decode_bf16")) {
        double context = 16.0 * word(arguments, 5), sequences = z, heads = y;
        return 3 + 0.016 * sequences * heads + 0.00013 * context + sequences * context * heads * 512 / 4.37e6;
    }
    if (!strcmp(name, "kv_read_paged")) return 3 + (double)z * last_word * y * 512 / 4.4e6;
    if (!strcmp(name, "attn_prefill_bf16")) {
        double tokens = word(arguments, 4);
        return 10 + 2 * tokens * tokens * 32 * 128 / 3.1e8;
    }
    if (!strcmp(name, "attn_combine")) return 2;
    if (!strcmp(name, "kv_copy_pages")) return 10 + 16.0 * word(arguments, 3) * word(arguments, 4) / 4.5e4;
    return x > 1 ? 1.8 : 1.4;
}
Result cuLaunchKernel(Any function, u32 x, u32 y, u32 z, u32 bx, u32 by, u32 bz, u32 shared, Any stream, Any *arguments, Any *extra) {
    static long long launches;
    launches++;
    if (launches == ail("MOCK_INTERRUPT", -1)) raise(SIGINT);
    if (launches == ail("MOCK_FAIL", -1)) return 719;
    spend(kernel_us(function, x, y, z, arguments));
    return 0;
}

/* ---- cublasLt */
typedef struct { uint64_t rows, columns; int type; } Layout;
size_t cublasLtGetVersion(void) { return 130002; }
Result cublasLtCreate(Any *handle) { *handle = (Any)4; return 0; }
Result cublasLtDestroy(Any handle) { return 0; }
Result cublasLtMatmulDescCreate(Any *product, int compute, int scale) { *product = malloc(8); return 0; }
Result cublasLtMatmulDescSetAttribute(Any product, int attribute, const void *value, size_t bytes) { return 0; }
Result cublasLtMatmulDescDestroy(Any product) { free(product); return 0; }
Result cublasLtMatrixLayoutCreate(Any *layout, int type, uint64_t rows, uint64_t columns, int64_t stride) {
    Layout *made = malloc(sizeof *made);
    *made = (Layout){rows, columns, type};
    *layout = made;
    return 0;
}
Result cublasLtMatrixLayoutDestroy(Any layout) { free(layout); return 0; }
Result cublasLtMatmulPreferenceCreate(Any *preference) { *preference = malloc(8); return 0; }
Result cublasLtMatmulPreferenceSetAttribute(Any preference, int attribute, const void *value, size_t bytes) { return 0; }
Result cublasLtMatmulPreferenceDestroy(Any preference) { free(preference); return 0; }
struct Answer { uint64_t algorithm[8]; size_t workspace; int state; float waves; int reserved[4]; };
Result cublasLtMatmulAlgoGetHeuristic(Any handle, Any product, Layout *weights, Layout *input, Any c, Any d, Any preference, int asked, struct Answer *answers, int *found) {
    *found = 0;
    /* int8 is refused for single rows, as some versions do. */
    if (weights->type == 3 && input->columns < 16) return 15;
    memset(answers, 0, (size_t)asked * sizeof *answers);
    *found = asked;
    return 0;
}
Result cublasLtMatmul(Any handle, Any product, Any alpha, Any weights, Layout *wl, Any input, Layout *il, Any beta, Any c, Any cl, Any output, Any ol, Any algorithm, Any workspace, size_t bytes, Any stream) {
    double k = (double)wl->rows, n = (double)wl->columns, m = (double)il->columns;
    int is_narrow = wl->type == 28 || wl->type == 3;
    double in = is_narrow ? 1 : 2, out = wl->type == 3 ? 4 : 2, peak = is_narrow ? 1.4e9 : 7.76e8;
    double compute = 2 * m * n * k / peak, memory = (in * (n * k + m * k) + out * m * n) / 4.25e6, p = 3.9;
    spend(3.3 + 0.38e-3 * k + pow(pow(compute, p) + pow(memory, p), 1 / p));
    return 0;
}

/* ---- NVML */
Result nvmlInit_v2(void) { return (Result)ail("MOCK_NVML", 0); }
Result nvmlSystemGetDriverVersion(char *text, u32 bytes) { snprintf(text, bytes, "580.159.04"); return 0; }
Result nvmlDeviceGetHandleByPciBusId_v2(const char *bus, Any *card) { *card = (Any)5; return 0; }
Result nvmlDeviceGetClockInfo(Any card, u32 kind, u32 *mhz) { *mhz = kind == 1 ? 1980 : 3201; return 0; }
Result nvmlDeviceGetMaxClockInfo(Any card, u32 kind, u32 *mhz) { *mhz = 1980; return 0; }
Result nvmlDeviceGetPowerUsage(Any card, u32 *milliwatts) { *milliwatts = 690000; return 0; }
Result nvmlDeviceGetEnforcedPowerLimit(Any card, u32 *milliwatts) { *milliwatts = 700000; return 0; }
Result nvmlDeviceGetTemperature(Any card, u32 sensor, u32 *celsius) { *celsius = 61; return 0; }
Result nvmlDeviceGetCurrentClocksThrottleReasons(Any card, unsigned long long *bits) { *bits = 4; return 0; }
Result nvmlDeviceGetMigMode(Any card, u32 *now, u32 *later) { *now = *later = (u32)ail("MOCK_MIG", 0); return 0; }
Result nvmlDeviceGetEccMode(Any card, u32 *now, u32 *later) { *now = *later = 1; return 0; }
Result nvmlDeviceGetCurrPcieLinkGeneration(Any card, u32 *generation) { *generation = 5; return 0; }
Result nvmlDeviceGetCurrPcieLinkWidth(Any card, u32 *lanes) { *lanes = 16; return 0; }
Result nvmlDeviceGetComputeRunningProcesses_v3(Any card, u32 *count, Any infos) { *count = (u32)ail("MOCK_PROCESSES", 0); return *count ? 7 : 0; }
#endif
