//! Products by cublasLt through the bindings' lowest layer: the layers above know neither fp8 nor int8, and ask the
//! library's heuristic again at every call.

use std::ffi::c_void;

use cudarc::cublaslt::{result, sys};

use super::device::{Device, Fault, Memory, driver_error};
use crate::probe::course::Refusal;
use crate::probe::plan::{Format, Shape};

/// cublasLt's answers for Hopper need 32 MiB; with 4 they differ.
const WORKSPACE: u64 = 32 << 20;

/// The opened library, its workspace, and a scale of one for fp8.
pub(super) struct Library {
    handle: sys::cublasLtHandle_t,
    workspace: Memory,
    one: Memory,
    stream: *mut c_void,
}

fn said<T>(what: &'static str, answer: Result<T, result::CublasError>) -> Result<T, Fault> {
    answer.map_err(|error| driver_error(what, format!("{:?}", error.0)))
}

/// A call that the library refuses for this shape or format is a result.
fn refused<T>(what: &str, answer: Result<T, result::CublasError>) -> Result<T, Refusal> {
    use sys::cublasStatus_t as S;
    answer.map_err(|error| match error.0 {
        S::CUBLAS_STATUS_NOT_SUPPORTED | S::CUBLAS_STATUS_INVALID_VALUE | S::CUBLAS_STATUS_ARCH_MISMATCH => {
            Refusal::Unsupported(format!("{what}: {:?}", error.0))
        }
        other => driver_error("cublasLt", format!("{what}: {other:?}")).into(),
    })
}

impl Library {
    pub(super) fn open(device: &Device) -> Result<Library, Fault> {
        let one = Memory::new(256)?;
        device.put(one.at, &[1.0_f32])?;
        Ok(Library {
            handle: said("cublasLtCreate", result::create_handle())?,
            workspace: Memory::new(WORKSPACE)?,
            one,
            stream: device.stream.cu_stream().cast(),
        })
    }

    /// Asks for the best algorithms of a product. Row-major `Y[M,N] = X[M,K]·W[N,K]ᵀ` is in the library's columns the
    /// form "TN" with `m = N`, `n = M`, which is the one that fp8 demands.
    pub(super) fn prepare(
        &self,
        _device: &Device,
        format: Format,
        shape: Shape,
        algorithms: usize,
    ) -> Result<Call<'_>, Refusal> {
        let mut call = Call::new(self, format, shape)?;
        let mut answers: Vec<sys::cublasLtMatmulHeuristicResult_t> = Vec::with_capacity(algorithms);
        let mut found = 0;
        // SAFETY: every descriptor is live, and there is room for as many answers as are asked for.
        let status = unsafe {
            sys::cublasLtMatmulAlgoGetHeuristic(
                self.handle,
                call.product,
                call.weights,
                call.input,
                call.output,
                call.output,
                call.preference,
                algorithms as i32,
                answers.as_mut_ptr(),
                &mut found,
            )
        };
        refused("no algorithm", status.result())?;
        // SAFETY: the library has written that many.
        unsafe { answers.set_len((found.max(0) as usize).min(algorithms)) };
        answers.retain(|answer| answer.state == sys::cublasStatus_t::CUBLAS_STATUS_SUCCESS);
        if answers.is_empty() {
            return Err(Refusal::Unsupported(format!("no algorithm for {}", format.key())));
        }
        call.answers = answers;
        Ok(call)
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: made by create_handle.
        let _ = unsafe { result::destroy_handle(self.handle) };
    }
}

/// One product, ready to run.
pub(super) struct Call<'l> {
    library: &'l Library,
    format: Format,
    shape: Shape,
    product: sys::cublasLtMatmulDesc_t,
    weights: sys::cublasLtMatrixLayout_t,
    input: sys::cublasLtMatrixLayout_t,
    output: sys::cublasLtMatrixLayout_t,
    preference: sys::cublasLtMatmulPreference_t,
    answers: Vec<sys::cublasLtMatmulHeuristicResult_t>,
}

impl<'l> Call<'l> {
    fn new(library: &'l Library, format: Format, shape: Shape) -> Result<Call<'l>, Refusal> {
        use sys::cudaDataType_t as T;
        let (input, output) = match format {
            Format::Bf16 => (T::CUDA_R_16BF, T::CUDA_R_16BF),
            Format::Fp8 => (T::CUDA_R_8F_E4M3, T::CUDA_R_16BF),
            Format::Int8 => (T::CUDA_R_8I, T::CUDA_R_32I),
        };
        let (compute, scale) = match format {
            Format::Int8 => (sys::cublasComputeType_t::CUBLAS_COMPUTE_32I, T::CUDA_R_32I),
            _ => (sys::cublasComputeType_t::CUBLAS_COMPUTE_32F, T::CUDA_R_32F),
        };
        let Shape { m, n, k } = shape;
        // Descriptors are made one by one: where the third is refused, the first two are lost, a few hundred bytes.
        let call = Call {
            library,
            format,
            shape,
            product: refused("product", result::create_matmul_desc(compute, scale))?,
            weights: refused("weights", result::create_matrix_layout(input, k, n, k as i64))?,
            input: refused("input", result::create_matrix_layout(input, k, m, k as i64))?,
            output: refused("output", result::create_matrix_layout(output, n, m, n as i64))?,
            preference: refused("preference", result::create_matmul_pref())?,
            answers: Vec::new(),
        };
        call.describe()?;
        Ok(call)
    }

    fn describe(&self) -> Result<(), Refusal> {
        use sys::cublasLtMatmulDescAttributes_t as A;
        let set = |attribute, value: *const c_void, bytes: usize| {
            // SAFETY: the value is live during the call and as long as is said.
            let set = unsafe { result::set_matmul_desc_attribute(self.product, attribute, value, bytes) };
            refused("attribute", set)
        };
        let (transposed, fast, one) = (1_i32, 1_i8, self.library.one.at);
        set(A::CUBLASLT_MATMUL_DESC_TRANSA, (&raw const transposed).cast(), 4)?;
        if self.format == Format::Fp8 {
            set(
                A::CUBLASLT_MATMUL_DESC_A_SCALE_POINTER,
                (&raw const one).cast(),
                8,
            )?;
            set(
                A::CUBLASLT_MATMUL_DESC_B_SCALE_POINTER,
                (&raw const one).cast(),
                8,
            )?;
            set(A::CUBLASLT_MATMUL_DESC_FAST_ACCUM, (&raw const fast).cast(), 1)?;
        }
        let workspace = WORKSPACE as usize;
        let attribute = sys::cublasLtMatmulPreferenceAttributes_t::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
        // SAFETY: as above.
        let set = unsafe {
            let value: *const usize = &raw const workspace;
            result::set_matmul_pref_attribute(self.preference, attribute, value.cast(), size_of::<usize>())
        };
        refused("workspace", set)
    }

    /// Algorithms that the library offers, best first.
    pub(super) fn algorithms(&self) -> usize {
        self.answers.len()
    }

    /// Queues the product by one of them, on the weights whose turn it is.
    pub(super) fn run(
        &self,
        which: usize,
        turn: u64,
        weights: &Memory,
        input: &Memory,
        output: &Memory,
    ) -> Result<(), Refusal> {
        let Shape { n, k, .. } = self.shape;
        let bytes = (self.format.input_bytes() * n * k).next_multiple_of(256);
        let slots = (weights.bytes / bytes).max(1);
        let at = weights.at + turn % slots * bytes;
        let (one, zero, one_int, zero_int) = (1.0_f32, 0.0_f32, 1_i32, 0_i32);
        let (alpha, beta): (*const c_void, *const c_void) = if self.format == Format::Int8 {
            ((&raw const one_int).cast(), (&raw const zero_int).cast())
        } else {
            ((&raw const one).cast(), (&raw const zero).cast())
        };
        // SAFETY: the plan holds only shapes that the buffers hold; descriptors live as long as `self`.
        let queued = unsafe {
            result::matmul(
                self.library.handle,
                self.product,
                alpha,
                beta,
                at as *const c_void,
                self.weights,
                input.at as *const c_void,
                self.input,
                output.at as *const c_void,
                self.output,
                output.at as *mut c_void,
                self.output,
                &raw const self.answers[which].algo,
                self.library.workspace.at as *mut c_void,
                WORKSPACE as usize,
                self.library.stream.cast(),
            )
        };
        refused("matmul", queued)
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        // SAFETY: each was made once. What cannot be destroyed leaks.
        unsafe {
            for layout in [self.weights, self.input, self.output] {
                let _ = result::destroy_matrix_layout(layout);
            }
            let _ = result::destroy_matmul_pref(self.preference);
            let _ = result::destroy_matmul_desc(self.product);
        }
    }
}
