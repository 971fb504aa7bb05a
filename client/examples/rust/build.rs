fn main() -> std::io::Result<()> {
    tonic_prost_build::configure()
        .build_server(false)
        // Has conversions from and to the statuses of tonic.
        .extern_path(".google.rpc.Status", "::tonic_types::pb::Status")
        .compile_protos(&["topk/v1/topk.proto"], &["../../../proto"])
}
